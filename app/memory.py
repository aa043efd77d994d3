"""Collection of cyclic garbage in the server of the pages."""

import gc


def collect_garbage() -> None:
    """Free unreachable cycles, and exempt all other objects from collections until the next call.

    An automatic collection of the oldest generation takes 100 ms of a page where it visits the
    modules and caches of the process. With the exemption it visits what was made since.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
