// A periodic table of buttons. Python sends the cells and the selection; a click or Enter toggles an
// element, the arrow keys move between elements. Texts from Python go to textContent and titles only.

const SPREAD = 0.85 // largest share of the colour, so that the symbol stays readable

function colour(share) {
    if (share === null) return 'var(--st-secondary-background-color)'
    const percent = Math.round(100 * (0.08 + (SPREAD - 0.08) * share))
    return `color-mix(in srgb, var(--st-blue-color) ${percent}%, var(--st-background-color))`
}

function neighbour(cells, from, key) {
    const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[key]
    if (!step) return null
    const position = cell => [Number(cell.style.gridRow), Number(cell.style.gridColumn)]
    const [row, column] = position(from)
    let best = null, least = Infinity
    for (const cell of cells) {
        const [r, c] = position(cell)
        const along = (r - row) * step[0] + (c - column) * step[1]
        const across = Math.abs((r - row) * step[1]) + Math.abs((c - column) * step[0])
        if (along <= 0) continue
        const distance = along + 3 * across
        if (distance < least) { best = cell; least = distance }
    }
    return best
}

export default function ({data, parentElement, setStateValue}) {
    const table = parentElement.querySelector('.elements')
    table.setAttribute('aria-label', data.label)
    const focused = parentElement.activeElement ?? document.activeElement
    const focusedSymbol = table.contains(focused) ? focused.dataset.symbol : null
    const selected = new Set(data.selected)
    const cells = data.cells.map(cell => {
        const button = document.createElement('button')
        button.type = 'button'
        button.dataset.symbol = cell.symbol
        button.style.gridRow = cell.row
        button.style.gridColumn = cell.column
        button.disabled = cell.share === null
        button.tabIndex = -1
        button.style.background = colour(cell.share)
        button.classList.toggle('strong', cell.share > 0.62)
        button.title = cell.title
        button.setAttribute('aria-label', cell.title)
        button.setAttribute('aria-pressed', String(selected.has(cell.symbol)))
        const symbol = document.createElement('b')
        symbol.textContent = cell.symbol
        button.append(symbol)
        button.onclick = () => {
            if (!selected.delete(cell.symbol)) selected.add(cell.symbol)
            button.setAttribute('aria-pressed', String(selected.has(cell.symbol)))
            setStateValue('elements', [...selected])
        }
        return button
    })
    table.replaceChildren(...cells)
    const open = cells.filter(cell => !cell.disabled)
    const first = open.find(cell => cell.dataset.symbol === focusedSymbol) ?? open[0]
    if (first) first.tabIndex = 0
    if (focusedSymbol && first) first.focus()
    table.onkeydown = event => {
        const next = neighbour(open, event.target, event.key)
        if (!next) return
        event.preventDefault()
        event.target.tabIndex = -1
        next.tabIndex = 0
        next.focus()
    }
}
