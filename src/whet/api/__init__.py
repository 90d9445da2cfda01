"""whet from Python: `whet.ab`, `whet.check`, `whet.sweep` and what they return; the pytest plugin."""
