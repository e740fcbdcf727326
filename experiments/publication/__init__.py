"""The page, worked examples, the pretrained model, and generated parts of Markdown pages."""
