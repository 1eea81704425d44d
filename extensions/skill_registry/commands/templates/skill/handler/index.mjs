// The tool of this skill. `args` fit `inputSchema` of tool.json; `ctx.skill` has the instructions and
// the files of the skill, `ctx.invokeTool(name, args)` calls another tool.
export default async function handler(args, ctx) {
  const words = args.text.trim().split(/\s+/).length;
  return { result: { words, skill: ctx.skill.name } };
}
