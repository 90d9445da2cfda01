"""How do we know: gate, trial, verdict, store, compare, report."""
