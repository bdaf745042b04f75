"""As guard.mjs does, in Python."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "schemas/client/python"))
import unloop  # noqa: E402

run = unloop.Client(sys.argv[1], api_key="sk-guard").run("agent-py")
made = []


@run.guard
def weather(city):
    made.append(city)
    return f"It is sunny in {city}."


stopped = None
for _ in range(10):
    try:
        weather("Oslo")
    except unloop.LoopDetectedError as err:
        stopped = err
        break
calls = len(made)
other = weather("Rome")
print(json.dumps({"made": len(made), "typed": stopped is not None, "says": str(stopped), "loop": stopped.loop_id, "other": other}))
