// What only the browser can do: remember the visitor's workspaces, and keep one entry a page in its history.

const KEY = 'bandgap-workspaces'
const MOST = 50
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

function remembered() {
    try {
        return JSON.parse(localStorage.getItem(KEY) ?? '[]').filter(id => ID.test(id))
    } catch { // storage that is switched off, or not ours
        return []
    }
}

function remember(ids) {
    try {
        localStorage.setItem(KEY, JSON.stringify(ids))
    } catch { // storage that is switched off or full: the address still works
    }
}

// Streamlit pushes an entry for every change of the query parameters; only another page is one for the user.
function keepOneEntryAPage() {
    if (window.bandgapKeepsHistory) return
    window.bandgapKeepsHistory = true
    const push = history.pushState.bind(history)
    history.pushState = (state, title, url) => {
        const stays = new URL(url ?? '', location.href).pathname === location.pathname
        return stays ? history.replaceState(state, title, url) : push(state, title, url)
    }
}

export default function ({data, setStateValue}) {
    keepOneEntryAPage()
    const before = data.forget ? [] : remembered()
    const ids = [...new Set([data.workspace, ...before])].filter(id => ID.test(id)).slice(0, MOST)
    if (data.workspace || data.forget) remember(ids)
    if (JSON.stringify(ids) !== JSON.stringify(data.told)) setStateValue('workspaces', ids)
}
