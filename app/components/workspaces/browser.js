// Tasks of the browser: remember the visitor's workspaces, and keep one history entry per page.

const KEY = 'bandgap-workspaces'
const MOST = 50
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

function remembered() {
    try {
        return JSON.parse(localStorage.getItem(KEY) ?? '[]').filter(id => ID.test(id))
    } catch { // the storage is switched off, or the entry was not written by this script
        return []
    }
}

function remember(ids) {
    try {
        localStorage.setItem(KEY, JSON.stringify(ids))
    } catch { // the storage is switched off or full: the address still works
    }
}

// Streamlit adds an entry for every change of the query parameters. For the user only a change of
// the page is an entry, so a change of the parameters replaces the present entry.
function keepOneEntryPerPage() {
    if (window.bandgapKeepsHistory) return
    window.bandgapKeepsHistory = true
    const push = history.pushState.bind(history)
    history.pushState = (state, title, url) => {
        const samePage = new URL(url ?? '', location.href).pathname === location.pathname
        return samePage ? history.replaceState(state, title, url) : push(state, title, url)
    }
}

export default function ({data, setStateValue}) {
    keepOneEntryPerPage()
    const before = data.forget ? [] : remembered()
    const ids = [...new Set([data.workspace, ...before])].filter(id => ID.test(id)).slice(0, MOST)
    if (data.workspace || data.forget) remember(ids)
    if (JSON.stringify(ids) !== JSON.stringify(data.known)) setStateValue('workspaces', ids)
}

// Streamlit puts the entries of a section of the navigation into a `div` inside a list, where
// screen readers expect entries only. Name the sections as lists instead.
function nameLists() {
  for (const list of document.querySelectorAll('ul[data-testid="stSidebarNavItems"]')) {
    if (list.role !== 'none') list.role = 'none'
    for (const entry of list.querySelectorAll('li'))
      if (entry.parentElement !== list && entry.parentElement.role !== 'list')
        entry.parentElement.role = 'list'
    const alone = [...list.children].filter(child => child.tagName === 'LI')
    for (const entry of alone) if (entry.role !== 'none') entry.role = 'none'
  }
}

nameLists()
new MutationObserver(nameLists).observe(document.body, { childList: true, subtree: true })
