"""Tables and captions to pages: index.html, and the measured numbers of README.md and docs/.

`index` fills the template of the page with what `opening`, `findings`, `entries`, `explorer` and `provenance` make;
`blocks` and `documents` rewrite Markdown. No module here measures, fits or draws.
"""
