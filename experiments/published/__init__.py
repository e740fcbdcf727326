"""Published statements, judged by theory, worked examples and measured tables; and the worked examples."""
