// Draws the scene of a structure (bandgap/plots/scenes.py) by 3Dmol.js.
//
// A browser has few WebGL contexts, so the viewers of removed components are used again (POOL).
import * as mol from './3Dmol-2.5.5.js'

const states = new WeakMap() // of the components, by their root
const POOL = []
const STICK = 0.11 // radius in angstrom
const CELL = '#7A8086'
const AXES = ['a', 'b', 'c']
const DIRECTIONS = ['#C2410C', '#15803D', '#1D4ED8'] // of the axes a, b, c
const MOST_VERTICES = 20000 // of one mesh

export default function ({ data, parentElement: root, setStateValue }) {
  const box = root.querySelector('.box')
  let state = states.get(root)
  if (!state) {
    state = POOL.pop() ?? newState()
    states.set(root, state)
    connect(state, root, box)
  }
  state.send = setStateValue
  const background = opaque(getComputedStyle(box).getPropertyValue('--st-background-color'))
  if (state.id !== data.id || state.background !== background) {
    const isNew = state.structure !== data.structure
    Object.assign(state, { id: data.id, structure: data.structure, background, data })
    drawAll(state, root, isNew)
  }
  return () =>
    queueMicrotask(() => {
      if (root.isConnected) return
      state.observer?.disconnect()
      state.holder.remove()
      if (state.viewer) empty(state.viewer)
      Object.assign(state, { id: null, structure: null, model: null, fits: false, marked: [] })
      states.delete(root)
      POOL.push(state)
    })
}

function newState() {
  const holder = document.createElement('div')
  holder.className = 'holder'
  return { holder, viewer: null, marked: [], polyhedra: true, labels: false }
}

// Return what draws WebGL in this browser: "nothing", "software" or "GPU".
function drawingDevice() {
  try {
    const context = document.createElement('canvas').getContext('webgl2')
    if (!context) return 'nothing'
    const names = context.getExtension('WEBGL_debug_renderer_info')
    const name = context.getParameter(names?.UNMASKED_RENDERER_WEBGL ?? context.RENDERER)
    context.getExtension('WEBGL_lose_context')?.loseContext()
    return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(name) ? 'software' : 'GPU'
  } catch {
    return 'nothing'
  }
}

// Put the viewer into the box and connect the buttons of this component.
function connect(state, root, box) {
  box.append(state.holder)
  state.viewer?.resize() // one that is used again had no size without a page
  const device = state.viewer ? '' : drawingDevice()
  if (device === 'GPU' || device === 'software') {
    // Four times the pixels make edges smoother, and take software four times as long.
    state.viewer = mol.createViewer(state.holder, { antialias: true, upscale: device === 'GPU' })
    state.viewer.setProjection('orthographic')
    state.edgeRadius = device === 'GPU' ? 0.03 : 0.045 // thinner ones break up in fewer pixels
  }
  state.root = root
  const button = name => root.querySelector(`[data-do="${name}"]`)
  AXES.forEach((axis, k) => button(axis).addEventListener('click', () => lookAlong(state, k)))
  button('reset').addEventListener('click', () => show(state, state.data.view))
  button('polyhedra').addEventListener('click', () => {
    state.polyhedra = !state.polyhedra
    drawAll(state, root, false)
  })
  button('png').addEventListener('click', () => save(state, 'png', state.viewer.pngURI()))
  button('svg').addEventListener('click', () =>
    save(state, 'svg', pictureAddress(state.data.picture))
  )
  root
    .querySelector('select')
    .addEventListener('change', event => state.send('cells', Number(event.target.value)))
  box.addEventListener('keydown', event => turnByKey(state, event))
  if (!state.viewer) return
  state.observer = new ResizeObserver(() => {
    if (!box.clientWidth || !box.isConnected) return
    state.viewer.resize()
    if (!state.fits && state.model) show(state, matrix(state.viewer.getView().slice(4)))
  })
  state.observer.observe(box)
}

function drawAll(state, root, isNew) {
  const start = performance.now()
  const { data, viewer } = state
  const view = viewer && !isNew ? viewer.getView() : null
  fillControls(state, root)
  if (!viewer) {
    showPicture(root, data)
    return
  }
  empty(viewer)
  state.marked = []
  viewer.setBackgroundColor(state.background, 1)
  const colours = data.elements.map(element => visible(element.colour, state.background))
  const atoms = atomsOf(data)
  const model = viewer.addModel()
  model.addAtoms(atoms)
  data.elements.forEach(({ symbol, radius }, k) =>
    model.setStyle(
      { elem: symbol },
      { sphere: { radius, color: colours[k] }, stick: { radius: STICK, color: colours[k] } }
    )
  )
  const rods = newRods(viewer)
  for (const [atom, x, y, z] of data.stubs)
    rods.add(atoms[atom], { x, y, z }, STICK, colours[data.element[atom]])
  if (state.polyhedra) drawPolyhedra(state, atoms, colours)
  drawCell(state)
  viewer.setClickable({ model }, true, atom => mark(state, atom))
  viewer.setHoverable({ model }, false)
  state.model = model
  if (view && data.repeats.join() === state.repeats) viewer.setView(view)
  else show(state, view ? matrix(view.slice(4)) : data.view)
  state.repeats = data.repeats.join()
  viewer.render()
  root.querySelector('.box').dataset.drawn = data.id
  performance.clearMeasures('bandgap.structure')
  performance.measure('bandgap.structure', { start })
}

// Remove all from a viewer. Its `clear` draws what it removes once more.
function empty(viewer) {
  viewer.removeAllModels()
  viewer.removeAllShapes()
  viewer.removeAllLabels()
}

function fillControls(state, root) {
  const { data } = state
  const button = name => root.querySelector(`[data-do="${name}"]`)
  const periodic = data.pbc.some(Boolean)
  AXES.forEach((axis, k) => {
    const name = periodic ? axis : 'xyz'[k]
    button(axis).textContent = name
    button(axis).setAttribute('aria-label', `View along ${name}`)
    button(axis).hidden = periodic && !data.pbc[k]
  })
  button('polyhedra').hidden = !data.polyhedra.length
  button('polyhedra').setAttribute('aria-pressed', state.polyhedra)
  for (const name of ['a', 'b', 'c', 'reset', 'polyhedra', 'png'])
    button(name).disabled = !state.viewer
  const select = root.querySelector('select')
  select.parentElement.hidden = data.most_cells < 2
  select.replaceChildren(
    ...Array.from({ length: data.most_cells }, (_, k) => {
      const option = document.createElement('option')
      option.value = k + 1
      option.textContent = data.pbc.map(p => (p ? k + 1 : 1)).join(' × ')
      return option
    })
  )
  select.value = Math.max(...data.repeats)
  root.querySelector('.legend').replaceChildren(
    ...data.elements.map(({ symbol, colour }) => {
      const chip = document.createElement('span')
      chip.textContent = symbol
      chip.style.setProperty('--ball', visible(colour, state.background))
      return chip
    })
  )
  root.querySelector('.box').setAttribute('aria-label', data.label)
  note(state, 'Click an atom for its site and bonds, a second one for the distance.')
}

function atomsOf({ element, elements, xyz, site, bonds }) {
  const atoms = element.map((kind, k) => ({
    elem: elements[kind].symbol,
    x: xyz[3 * k],
    y: xyz[3 * k + 1],
    z: xyz[3 * k + 2],
    serial: k,
    bonds: [],
    bondOrder: [],
    properties: { site: site[k] }
  }))
  for (let k = 0; k < bonds.length; k += 2) {
    const [first, second] = [bonds[k], bonds[k + 1]]
    atoms[first].bonds.push(second)
    atoms[first].bondOrder.push(1)
    atoms[second].bonds.push(first)
    atoms[second].bondOrder.push(1)
  }
  return atoms
}

function drawPolyhedra(state, atoms, colours) {
  const meshes = new Map()
  const { data, viewer } = state
  for (const { centre, faces } of data.polyhedra) {
    const kind = data.element[centre]
    const mesh = meshes.get(kind) ?? { vertices: [], normals: [] }
    meshes.set(kind, mesh)
    for (let k = 0; k < faces.length; k += 3) {
      const [a, b, c] = faces.slice(k, k + 3).map(corner => vector(atoms[corner]))
      let normal = cross(minus(b, a), minus(c, a))
      const outward = dot(normal, minus(a, vector(atoms[centre]))) > 0
      normal = scaled(normal, (outward ? 1 : -1) / Math.hypot(...normal))
      mesh.vertices.push(...(outward ? [a, b, c] : [a, c, b]))
      mesh.normals.push(normal, normal, normal)
    }
  }
  for (const [kind, { vertices, normals }] of meshes)
    for (let from = 0; from < vertices.length; from += MOST_VERTICES - (MOST_VERTICES % 3)) {
      const part = vertices.slice(from, from + MOST_VERTICES - (MOST_VERTICES % 3))
      viewer.addCustom({
        vertexArr: part.map(point),
        normalArr: normals.slice(from, from + part.length).map(point),
        faceArr: part.map((_, k) => k),
        color: colours[kind],
        opacity: 0.6
      })
    }
}

// Rods with round ends; those of one colour are one shape, as every shape takes long to draw.
function newRods(viewer) {
  const shapes = new Map()
  return {
    add(start, end, radius, color) {
      if (!shapes.has(color)) shapes.set(color, viewer.addShape({ color }))
      shapes.get(color).addCylinder({ start, end, radius, color, fromCap: 1, toCap: 1 })
    }
  }
}

// Edges of the cells, those of the first cell from its origin in the colours of a, b and c.
function drawCell(state) {
  const { data, viewer, background } = state
  const { cell, pbc, repeats } = data
  const axes = [0, 1, 2].filter(k => pbc[k])
  state.corners = []
  if (!axes.length) return
  const corner = steps => plus(...steps.map((n, k) => scaled(cell[k], n)))
  const rods = newRods(viewer)
  const upTo = n => Array.from({ length: n + 1 }, (_, k) => k)
  for (const axis of axes) {
    const [first, second] = [0, 1, 2].filter(k => k !== axis)
    for (const i of upTo(pbc[first] ? repeats[first] : 0))
      for (const j of upTo(pbc[second] ? repeats[second] : 0)) {
        const steps = [0, 0, 0]
        steps[first] = i
        steps[second] = j
        const start = corner(steps)
        steps[axis] = repeats[axis]
        rods.add(point(start), point(corner(steps)), state.edgeRadius, CELL)
      }
    const end = scaled(cell[axis], 1)
    const colour = visible(DIRECTIONS[axis], background)
    rods.add(point([0, 0, 0]), point(end), 0.05, colour)
    viewer.addLabel(AXES[axis], {
      position: point(scaled(end, 1.04)),
      fontColor: colour,
      fontSize: 15,
      showBackground: false,
      inFront: true,
      alignment: 'center'
    })
  }
  const far = repeats.map((n, k) => (pbc[k] ? n : 0))
  state.corners = [0, 1, 2, 3, 4, 5, 6, 7].map(bits =>
    corner(far.map((n, k) => ((bits >> k) & 1) * n))
  )
  // Without these points 3Dmol cuts off what is far from the atoms.
  viewer.addModel().addAtoms(state.corners.map(p => ({ elem: 'X', ...point(p) })))
}

// Show all of the scene; `rotation` has the directions to the right, up and to the viewer as rows.
// In a new scene this moves the camera only, before the first `render` makes what is drawn.
function show(state, rotation) {
  const { viewer, holder, data } = state
  viewer.zoomTo()
  const view = viewer.getView()
  view.splice(4, 4, ...quaternion(rotation))
  const radii = data.elements.map(element => element.radius)
  const points = data.element.map((kind, k) => [data.xyz.slice(3 * k, 3 * k + 3), radii[kind]])
  points.push(...state.corners.map(corner => [corner, 0.4]))
  const [right, up] = [0, 1].map(k => extent(points, rotation[k]))
  const centre = plus(
    scaled(rotation[0], (right[0] + right[1]) / 2),
    scaled(rotation[1], (up[0] + up[1]) / 2),
    scaled(rotation[2], -dot(rotation[2], view.slice(0, 3)))
  )
  view.splice(0, 3, ...scaled(centre, -1))
  viewer.setView(view)
  const [from, to] = viewer.modelToScreen([point(centre), point(plus(centre, rotation[1]))])
  const pixels = Math.hypot(from.x - to.x, from.y - to.y) // of an angstrom
  const fits = [holder.clientWidth / (right[1] - right[0]), holder.clientHeight / (up[1] - up[0])]
  state.fits = Boolean(pixels && holder.clientWidth) // not before the component has a size
  if (state.fits) viewer.zoom((0.93 * Math.min(...fits, 90)) / pixels)
}

// Return the least and the largest coordinate of balls along a direction.
function extent(balls, direction) {
  let [low, high] = [Infinity, -Infinity]
  for (const [centre, radius] of balls) {
    const x = dot(centre, direction)
    low = Math.min(low, x - radius)
    high = Math.max(high, x + radius)
  }
  return [low, high]
}

// View along an axis of the cell, with another axis up.
function lookAlong(state, k) {
  const { cell, pbc } = state.data
  const axes = pbc.every(Boolean)
    ? cell
    : [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1]
      ]
  const toward = unit(axes[k])
  const other = axes[k === 2 ? 1 : 2]
  const up = unit(minus(other, scaled(toward, dot(other, toward))))
  show(state, [cross(up, toward), up, toward])
}

function turnByKey(state, event) {
  const turns = { ArrowLeft: [-10, 'y'], ArrowRight: [10, 'y'], ArrowUp: [-10, 'x'] }
  turns.ArrowDown = [10, 'x']
  const { viewer } = state
  if (!viewer) return
  if (turns[event.key]) viewer.rotate(...turns[event.key])
  else if (event.key === '+') viewer.zoom(1.15)
  else if (event.key === '-') viewer.zoom(1 / 1.15)
  else return
  event.preventDefault()
  viewer.render()
}

function mark(state, atom) {
  const { viewer, marked } = state
  const last = marked.at(-1)
  if (last && last.atom.serial === atom.serial) {
    unmark(state)
    note(state, '')
    viewer.render()
    return
  }
  if (marked.length > 1) unmark(state)
  const label = viewer.addLabel(name(atom), {
    position: point(vector(atom)),
    backgroundColor: '#1B1F24',
    backgroundOpacity: 0.85,
    fontColor: '#FFFFFF',
    fontSize: 13,
    inFront: true
  })
  state.marked.push({ atom, label })
  const [first, second] = state.marked
  let text = describe(state, atom)
  if (second) {
    const distance = Math.hypot(...minus(vector(first.atom), vector(second.atom)))
    state.line = viewer.addLine({
      start: point(vector(first.atom)),
      end: point(vector(second.atom)),
      dashed: true,
      color: visible('#D55E00', state.background)
    })
    text = `${name(first.atom)} to ${name(second.atom)}: ${distance.toFixed(3)} Å`
  }
  note(state, text)
  viewer.render()
}

function unmark(state) {
  for (const { label } of state.marked) state.viewer.removeLabel(label)
  if (state.line) state.viewer.removeShape(state.line)
  Object.assign(state, { marked: [], line: null })
}

function name(atom) {
  return `${atom.elem} ${atom.properties.site}`
}

function describe(state, atom) {
  const { data } = state
  const bonded = []
  for (let k = 0; k < data.bonds.length; k += 2) {
    const pair = data.bonds.slice(k, k + 2)
    if (!pair.includes(atom.serial)) continue
    const other = pair[0] === atom.serial ? pair[1] : pair[0]
    const place = data.xyz.slice(3 * other, 3 * other + 3)
    bonded.push([
      Math.hypot(...minus(place, vector(atom))),
      `${data.elements[data.element[other]].symbol} ${data.site[other]}`
    ])
  }
  bonded.sort((a, b) => a[0] - b[0])
  const bonds = bonded.slice(0, 6).map(([length, other]) => `${other} ${length.toFixed(2)} Å`)
  const more = bonded.length > 6 ? ` and ${bonded.length - 6} more` : ''
  return bonds.length
    ? `${name(atom)}, bonds to ${bonds.join(', ')}${more}`
    : `${name(atom)}, no bonds drawn`
}

function note(state, text) {
  state.root.querySelector('.note').textContent = text
}

function showPicture(root, data) {
  const picture = document.createElement('img')
  picture.src = pictureAddress(data.picture)
  picture.alt = data.label
  root.querySelector('.box').replaceChildren(picture)
  root.querySelector('.box').dataset.drawn = data.id
  root.querySelector('.note').textContent =
    'This browser offers no WebGL, so that the structure is shown as a picture. To turn it, ' +
    'switch on hardware acceleration or use another browser.'
}

function pictureAddress(svg) {
  return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`
}

function save(state, type, address) {
  const link = document.createElement('a')
  link.href = address
  link.download = `${state.data.file}.${type}`
  link.click()
}

// Translucent polyhedra need an opaque background.
function opaque(colour) {
  const context = document.createElement('canvas').getContext('2d')
  context.fillStyle = colour.trim() || '#FFFFFF'
  const [r, g, b] = channels(context.fillStyle)
  return `#${[r, g, b].map(x => Math.round(x).toString(16).padStart(2, '0')).join('')}`
}

// Return the colour, lighter on a dark ground and darker on a light one where it is hard to see.
function visible(colour, ground) {
  const brightness = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b) / 255
  const parts = channels(colour)
  const isDark = brightness(channels(ground)) < 0.5
  let away = Math.abs(brightness(parts) - brightness(channels(ground)))
  const target = isDark ? 255 : 0
  const share = Math.min(0.45, Math.max(0, (0.36 - away) * (isDark ? 1.6 : 0.7)))
  return `#${parts
    .map(x => Math.round(x + share * (target - x)).toString(16).padStart(2, '0'))
    .join('')}`
}

function channels(colour) {
  const hex = colour.match(/^#(..)(..)(..)/)
  if (hex) return hex.slice(1).map(part => parseInt(part, 16))
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number)
}

const vector = ({ x, y, z }) => [x, y, z]
const point = ([x, y, z]) => ({ x, y, z })
const plus = (...vectors) => [0, 1, 2].map(k => vectors.reduce((sum, v) => sum + v[k], 0))
const minus = (a, b) => a.map((x, k) => x - b[k])
const scaled = (a, factor) => a.map(x => x * factor)
const dot = (a, b) => a.reduce((sum, x, k) => sum + x * b[k], 0)
const unit = a => scaled(a, 1 / Math.hypot(...a))
const cross = (a, b) => [
  a[1] * b[2] - a[2] * b[1],
  a[2] * b[0] - a[0] * b[2],
  a[0] * b[1] - a[1] * b[0]
]

// Return x, y, z, w of the rotation with these rows.
function quaternion([[a, b, c], [d, e, f], [g, h, i]]) {
  const trace = a + e + i
  if (trace > 0) {
    const s = 2 * Math.sqrt(trace + 1)
    return [(h - f) / s, (c - g) / s, (d - b) / s, s / 4]
  }
  if (a > e && a > i) {
    const s = 2 * Math.sqrt(1 + a - e - i)
    return [s / 4, (b + d) / s, (c + g) / s, (h - f) / s]
  }
  if (e > i) {
    const s = 2 * Math.sqrt(1 + e - a - i)
    return [(b + d) / s, s / 4, (f + h) / s, (c - g) / s]
  }
  const s = 2 * Math.sqrt(1 + i - a - e)
  return [(c + g) / s, (f + h) / s, s / 4, (d - b) / s]
}

// Return the rotation with this quaternion.
function matrix([x, y, z, w]) {
  return [
    [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
    [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
    [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]
  ]
}
