#!/bin/bash
echo "the seed is $SEED"
cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"
