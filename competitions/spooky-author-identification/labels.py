AUTHORS = ["EAP", "HPL", "MWS"]
