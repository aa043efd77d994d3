// Tasks of the browser: keep one history entry per page, and name the lists of the navigation.

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
    if (!data.known) setStateValue('keeps_history', true)
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
