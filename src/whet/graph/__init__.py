"""A task-graph runtime: readiness by polling completion bytes."""
