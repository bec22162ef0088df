#!/bin/bash
cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"
