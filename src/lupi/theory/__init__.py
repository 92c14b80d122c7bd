"""Theory: the risks of the linear model, and how much a tells of y given x."""
