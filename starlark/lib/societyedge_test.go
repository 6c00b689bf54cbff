package lib_test

import "testing"

// review is what a scripted reviewer says, draft what a worker does.
const societyHelp = `
def draft(x):
    return json.encode({"draft": x})

def word(verdict, comments = ""):
    return json.encode({"comments": comments, "verdict": verdict})

def who(prompts):
    "Who was asked, in order."
    return [p.system.split(".\n")[0].replace("You are ", "").split(":")[0] for p in prompts]
`

// TestSocietyOversight: one proposes, code checks for free, another has the
// last word.
func TestSocietyOversight(t *testing.T) {
	play(t, `
-- main.star --
STEP = {"type": "object", "required": ["do", "with"], "properties": {
    "do":   {"enum": ["goto", "grasp", "release", "say", "stop"]},
    "with": {"type": "string", "maxLength": 40}}}
PLAN = Artifact("plan", max_tokens = 300, schema = {"type": "object", "required": ["steps"],
    "properties": {"steps": {"type": "array", "items": STEP, "minItems": 1, "maxItems": 6}}})
planner  = Agent("planner",  role = "turns a request into robot steps", model = "qwen2.5:1.5b")
overseer = Agent("overseer", role = "safety reviewer", model = "qwen2.5:1.5b", temperature = 0.0)
bot = Society("kitchen-bot", escalate_to = HUMAN)
review = bot.connect(planner, overseer, Oversight(       # source is reviewed, target reviews
    artifacts  = [PLAN],
    criteria   = ["never drive with something held above the gripper", "every grasp is followed by a release"],
    max_rounds = 3, timeout = "60s", on_timeout = RETRY_ONCE,
    on_deadlock = Escalate(HUMAN),
))
-- main_test.star --
load("main.star", "review", "bot", "planner", "overseer")
`+societyHelp+`
def test_oversight():
    plan = {"steps": [{"do": "goto", "with": "kitchen"}]}
    model.says(draft(plan), when = "a cup")
    model.says(word("revise", "grasp it"), when = "grasp is followed")
    model.says(draft({"steps": [{"do": "goto", "with": "kitchen"}, {"do": "grasp", "with": "cup"}]}), when = "grasp it")
    model.says(word("approve", "fine"), when = "grasp is followed")
    r = review.run("a cup")
    assert.eq(r.status, "done")
    assert.eq(who(model.prompts()), ["planner", "overseer", "planner", "overseer"])
    assert.eq(len(r.output["steps"]), 2)
    assert.eq(bot.edge_between(planner, overseer, type = Oversight), review)
    assert.eq([a.name for a in bot.agents], ["planner", "overseer"])
    assert.eq(bot.edges, [review])
`)
}
