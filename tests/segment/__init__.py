"""Documents to articles: converters, the pipeline, the language chain."""
