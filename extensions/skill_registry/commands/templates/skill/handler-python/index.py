"""The tool of this skill.

`args` fit `inputSchema` of tool.json; `ctx.skill` has the instructions and the files of the skill.
"""


def handler(args, ctx):
    words = len(args["text"].split())
    return {"result": {"words": words, "skill": ctx.skill.name}}
