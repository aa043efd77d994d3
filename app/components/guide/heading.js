// Scroll to the heading that the address names, until the formulas above it have their size.
// Streamlit scrolls when it draws the heading, before the text below it.

const LASTS_MS = 2500
const EVERY_MS = 100

export default function () {
    const heading = decodeURIComponent(location.hash.slice(1))
    if (!heading || window.bandgapScrolledTo === location.href) return
    window.bandgapScrolledTo = location.href
    const end = Date.now() + LASTS_MS
    let taken = false // the visitor scrolls or types
    for (const event of ['wheel', 'touchstart', 'keydown', 'mousedown']) {
        addEventListener(event, () => { taken = true }, {once: true})
    }
    const scroll = () => {
        if (taken) return
        document.getElementById(heading)?.scrollIntoView()
        if (Date.now() < end) setTimeout(scroll, EVERY_MS)
    }
    scroll()
}
