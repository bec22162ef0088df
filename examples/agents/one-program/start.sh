cd "$CODE_DIR"
export PROMPT="Answer with a Python program alone. $(bash "$AGENT_DIR/../prompt.sh")"
python3 -c 'import json, os; print(json.dumps(dict(model=os.environ["MODEL"],
    messages=[dict(role="user", content=os.environ["PROMPT"])])))' >question.json
curl --fail --data @question.json --header "Content-Type: application/json" \
    --header "Authorization: Bearer $OPENAI_API_KEY" "$OPENAI_BASE_URL/chat/completions" --output answer.json
python3 -c 'import json; print(json.load(open("answer.json"))["choices"][0]["message"]["content"])' |
    sed '/^```/d' >solution.py && python3 solution.py
