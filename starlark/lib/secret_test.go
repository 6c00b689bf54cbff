package lib_test

import (
	"testing"

	"edged/starlark/lib"
)

// TestSecretsStayHidden: a script can hand a secret to a server and to nobody
// else: nothing makes text of it.
func TestSecretsStayHidden(t *testing.T) {
	o := lib.TestOptions{Grants: lib.Grants{All: true}, Secret: func(string) (string, error) { return "s3cret-text", nil }}
	playWith(t, `
-- main.star --
S = secret("x")
TOOLS = mcp("http://box:1/mcp", headers = {"Authorization": S, "X-Kind": "a"})
MORE = mcp("stdio:box", env = {"KEY": S})
M = Model("openai:m@http://box/v1", key = S)
a = Agent("a", model = [M, "builtin"], tools = [TOOLS])
-- main_test.star --
load("main.star", "S", "TOOLS", "MORE", "M", "a")

def test_no_text_of_it():
    seen = [str(S), repr(S), "%s" % S, "%r" % [S], "{}".format(S), str({"x": S}), str(TOOLS), str(MORE), str(M), str(a), TOOLS.address, M.name, str(dir(S))]
    for make in [lambda: json.encode(S), lambda: json.encode([M]), lambda: bus.publish("box/x", S), lambda: bus.publish("box/x", {"k": M}), lambda: bb.set("box/x", S), lambda: S + "",
                 lambda: list(S), lambda: len(S), lambda: S[0], lambda: S.text, lambda: sorted([S, S]), lambda: hash(str(S)), lambda: store.write("x", S), lambda: re.sub("a", "b", S),
                 lambda: "x".join([S]), lambda: remember("k", S), lambda: a.run(S), lambda: a.run({"k": S}), lambda: {S: 1}, lambda: env(S), lambda: secret(S), lambda: log.info("x", k = S),
                 lambda: Model("openai:m@http://box/v1", key = "plain"), lambda: Model(S, key = S), lambda: mcp(S), lambda: mcp("stdio:x", headers = {"a": S}), lambda: mcp("http://x", headers = {"a": [S]}),
                 lambda: mcp("http://x", headers = {S: "x"}), lambda: fail(S), lambda: assert.eq(S, 1), lambda: "s3" in S]:
        r = attempt(make)
        seen.append("%s %s" % (r.error, r.value))
    log.info("here", secret = S)
    print(S)
    for text in seen:
        assert.true("s3cret" not in text, msg = text)
    assert.true("s3cret" not in str(trace()), msg = "in the trace")

def test_what_takes_none():
    for make, why in [(lambda: mcp("stdio:x", headers = {"a": S}), "for a server at an address"), (lambda: mcp("http://x", env = {"a": S}), "for a program"),
                      (lambda: mcp("http://u:p@x/"), "headers ="), (lambda: mcp("http://x", headers = {"a b": "c"}), "is no name"), (lambda: mcp("http://x", headers = {"a": "b\nc"}), "more than one line"),
                      (lambda: Model("builtin", key = S), "takes no key"), (lambda: Model("qwen", key = S), "takes no key")]:
        r = attempt(make)
        assert.true(not r.ok)
        assert.contains(r.error, why)
`, o)
}
