"""The publications, and their statements that no computation could refute."""

SOURCES = {
    "qa": 'Q&A "Why divide by sqrt(d_k)?",'
    " www.songjunxi.com/language/transformer-5-scaling-and-value-output",
    "notebook": 'notebook "Understanding the Division by sqrt(d) in the Attention Mechanism",'
    " pantelis.github.io/aiml-common/lectures/nlp/transformers/attention_scaling_explained.html",
    "textbook": 'textbook chapter "Scaled Dot-Product Attention",'
    " interactiveprimer.com/concepts/computer-science/deep-learning/transformers/"
    "scaled-dot-product-attention.html",
    "lesson": 'lesson "Softmax & Attention Output",'
    " cs-visualizations.com/algorithms/ai-ml/transformers/softmax-output",
    "article": 'article "Scaled Dot-Product Attention: The Core Transformer Mechanism" (2025),'
    " Michael Brenndoerfer,"
    " mbrenndoerfer.com/writing/scaled-dot-product-attention-transformer-mechanism",
    "cv8": "repository attention-scaling-experiment, table1, CodeVinci8,"
    " github.com/CodeVinci8/attention-scaling-experiment",
    "usc": "repository unit-scaling, notebook on almost-scaled attention, Graphcore Research,"
    " github.com/graphcore-research/unit-scaling",
    "hello": "thread hello-agents#840, datawhalechina,"
    " github.com/datawhalechina/hello-agents/issues/840",
    "infw": 'preprint "Infinite-Width Limit of a Single Attention Layer: Analysis via Tensor'
    ' Programs" (2025), Mana Sakai, Ryo Karakida, Masaaki Imaizumi, arxiv.org/abs/2506.00846',
    "ssmax": 'preprint "Scalable-Softmax Is Superior for Attention" (2025), figure 1,'
    " Ken M. Nakanishi, arxiv.org/abs/2501.19399",
    "ngpt": 'preprint "nGPT: Normalized Transformer with Representation Learning on the'
    ' Hypersphere" (2024), section 2.3, Ilya Loshchilov, Cheng-Ping Hsieh, Simeng Sun,'
    " Boris Ginsburg, arxiv.org/abs/2410.01131",
    "mup": "repository mup, README, Microsoft, github.com/microsoft/mup",
    "se": 'question "Why does this multiplication of Q and K have a variance of d_k, in scaled dot'
    ' product attention?", ai.stackexchange.com/questions/21237',
}

LEFT_OUT = {
    "definition": "qa-28 lesson-34 lesson-36 article-03 article-133",
    "analogy": "qa-29",
    "input of an example": "notebook-01 notebook-02 notebook-05 lesson-07",
    "output without numbers": "notebook-03 notebook-04 notebook-21 lesson-09",
    "convention": "lesson-06 lesson-32",
    "illustration": "lesson-27 lesson-35 lesson-39 lesson-40",
}


def cited(ids: str) -> list[str]:
    """The sources of ids with blanks between them, each once, in their order."""
    names = dict.fromkeys(one.partition("-")[0] for one in ids.split())
    return [SOURCES[name] for name in names]
