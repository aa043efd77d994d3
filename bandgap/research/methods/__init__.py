"""Research methods: one file for each, which describes the method in its `METHOD`."""
