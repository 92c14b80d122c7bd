"""What labels alone, or with a model's predictions, say about truth and annotators."""
