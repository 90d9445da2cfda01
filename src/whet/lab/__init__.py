"""Real devices through a browser: whoever opens the page is a device of `ab`, `sweep` and `tune`. See docs/lab.md."""
