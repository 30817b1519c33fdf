"""How fast documents are read: scans and text layers, beside others, and very long ones."""
