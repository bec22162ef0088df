CLASSES = ["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"]
