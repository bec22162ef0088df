#!/bin/bash
set -x # Print commands and their arguments as they are executed

cd ${AGENT_DIR}

eval "$(conda shell.bash hook)" # make conda available to the shell
conda activate agent

# a folder for the work, and links out of it
mkdir -p ${AGENT_DIR}/workspaces/exp ${AGENT_DIR}/logs
ln -s ${LOGS_DIR} ${AGENT_DIR}/logs/exp
ln -s ${CODE_DIR} ${AGENT_DIR}/workspaces/exp/best_solution
ln -s ${SUBMISSION_DIR} ${AGENT_DIR}/workspaces/exp/best_submission

cat /home/instructions.txt > ${AGENT_DIR}/full_instructions.txt
export TASK_INSTRUCTIONS=${COMPETITION_ID}
envsubst < ${AGENT_DIR}/additional_notes.txt >> ${AGENT_DIR}/full_instructions.txt

timeout $TIME_LIMIT_SECS python utils/main.py "$@"
status=$?
conda deactivate
echo "environment: ${CONDA_DEFAULT_ENV:-none}"
conda run -n second python -c 'import sys; print("second:", sys.prefix)'
exit $status
