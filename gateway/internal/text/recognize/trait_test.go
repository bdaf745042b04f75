package recognize_test

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
)

func TestTraitsOfCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool, args string
		want       recognize.Traits
	}{
		{"wait", `{"seconds":60}`, recognize.Traits{Poll: true, Wait: true}},
		{"sleep", `{"ms":500}`, recognize.Traits{Wait: true}},
		{"browser_wait_for", `{"text":"Done"}`, recognize.Traits{Poll: true, Wait: true}},
		{"bash", `{"command":"sleep 60"}`, recognize.Traits{Poll: true, Wait: true}},
		{"bash", `{"command":"sleep 60 && echo done"}`, recognize.Traits{Poll: true, Wait: true}},
		{"bash", `{"command":"sleep 60; gh run view 7"}`, recognize.Traits{Poll: true}},
		{"bash", `{"command":"sleeper --now"}`, recognize.Traits{}},
		{"check_job", `{"id":7}`, recognize.Traits{Poll: true, Look: true}},
		{"receive_message", `{"queue":"orders"}`, recognize.Traits{Poll: true}},
		{"read_channel", `{}`, recognize.Traits{Poll: true, Look: true}},
		{"check_spelling", `{"text":"a word"}`, recognize.Traits{Look: true}},
		{"send_message", `{"text":"hi"}`, recognize.Traits{}},
		{"bash", `{"command":"nc -z localhost 5432 || echo closed"}`, recognize.Traits{Poll: true}},
		{"insert", `{"path":"a.go","line":10,"text":"import os"}`, recognize.Traits{Once: true}},
		{"str_replace_editor", `{"command":"insert","path":"a.go","new_str":"x"}`, recognize.Traits{Once: true}},
		{"undo_edit", `{"path":"a.go"}`, recognize.Traits{}},
		{"edit_image", `{"operation":"enhance"}`, recognize.Traits{}},
		{"Task", `{"prompt":"Write the report."}`, recognize.Traits{Once: true}},
		{"get_task", `{"id":7}`, recognize.Traits{Look: true}},
		{"delegate_to_writer", `{"task":"Write."}`, recognize.Traits{Once: true}},
		{"bash", `{"command":"edit 10:12\nx = 1\nend_of_edit"}`, recognize.Traits{Once: true}},
		{"bash", `{"command":"edit 10:12"}`, recognize.Traits{}},
		{"bash", `{"command":"cat >> a.py <<'E'\nimport os\nE"}`, recognize.Traits{Once: true}},
		{"bash", `{"command":"sed -i '10i import os' a.py && wc -l a.py"}`, recognize.Traits{Once: true}},
		{"bash", `{"command":"sed -i 's/a/b/' a.py"}`, recognize.Traits{}},
		{"bash", `{"command":"echo try >> run.log; ./run"}`, recognize.Traits{}},
		{"send_email", `{"to":"a@example.com"}`, recognize.Traits{Once: true}},
		{"get_email", `{"id":1}`, recognize.Traits{Poll: true, Look: true}},
		{"read_file", `{"path":"a"}`, recognize.Traits{}},
		{"read_file", `{"path":"build.log"}`, recognize.Traits{Look: true}},
		{"sql", `{"query":"SELECT state FROM jobs"}`, recognize.Traits{Look: true}},
		{"create_list", `{"name":"a"}`, recognize.Traits{}},
		{"python", `{"code":"import time; time.sleep(30)"}`, recognize.Traits{Wait: true}},
		{"js", `{"code":"await new Promise(r => setTimeout(r, 3000))"}`, recognize.Traits{Wait: true}},
		{"python", `{"code":"time.sleep(3); print(load())"}`, recognize.Traits{}},
	} {
		if got := recognize.TraitsOf(c.tool, []byte(c.args)); got != c.want {
			t.Errorf("%s %s: %+v, want %+v", c.tool, c.args, got, c.want)
		}
	}
}

func TestCallsThatMeasure(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]bool{
		"./bench": true, "go test -bench Parse": true, "hyperfine ls": true, "time ./a": true, "python -m timeit x": true,
		"go test": false, "npx jest": false, "sleep 5": false, "cat timeout.go": false,
	} {
		if got := recognize.Measures("bash", []byte(`{"command":"`+command+`"}`)); got != want {
			t.Errorf("%q: %t, want %t", command, got, want)
		}
	}
	one, other := []byte("elapsed: 1.137 s"), []byte("elapsed: 1.248 s")
	var defaults *recognize.Volatile
	if recognize.Result(one, nil) != recognize.Result(other, nil) || recognize.Result(one, defaults.WithTimes()) == recognize.Result(other, defaults.WithTimes()) {
		t.Error("times count where they should not, or do not where they should")
	}
}

func TestToolsThatGoAStepFurther(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]bool{
		"press_key": true, "browser_scroll": true, "move_forward": true, "turn_left": true, "moveRight": true,
		"move_file": false, "forward_mail": false, "step": false, "click": false, "read": false,
	} {
		if got := recognize.Steps(tool); got != want {
			t.Errorf("%q: %t, want %t", tool, got, want)
		}
	}
}

func TestTraitsOfCallsInText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool, command string
		shell         bool
		want          recognize.Traits
	}{
		{"bash", "sleep 30", true, recognize.Traits{Poll: true, Wait: true}},
		{"fence", "insert 94\nimport os\nend_of_insert", true, recognize.Traits{Once: true}},
		{"fence", "insert 94\nimport os\nend_of_insert", false, recognize.Traits{}},
		{"wait", "10", false, recognize.Traits{Poll: true, Wait: true}},
	} {
		if got := recognize.TextTraitsOf(c.tool, []byte(c.command), c.shell); got != c.want {
			t.Errorf("%s %q: %+v, want %+v", c.tool, c.command, got, c.want)
		}
	}
}

func TestErrorsThatTheirClassCovers(t *testing.T) {
	t.Parallel()
	const long = "Compiling app\nerror: expected `;`\n --> a.rs:7\nerror: could not compile `app`"
	for _, c := range []struct {
		tool, text string
		want       bool
	}{
		{"bash", "bash: line 2: unexpected EOF while looking for matching `\"'", true},
		{"bash", "bash: line 2: no\n\nbash: line 3: syntax error", true},
		{"bash", long, false},
		{"bash", "exit code: 1", false},
		{"bash", "", false},
		{"replace", long, true},
	} {
		if got := recognize.IsPlainError(c.tool, []byte(c.text)); got != c.want {
			t.Errorf("%s, %q: %v, want %v", c.tool, c.text, got, c.want)
		}
	}
}

func TestQuestionsThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"The user is not available.": true, "No response from user.": true, "Error: running in non-interactive mode": true, "Take the second one.": false, "": false,
	} {
		if got := recognize.IsUnanswered([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for tool, want := range map[string]bool{"ask_user": true, "AskUserQuestion": true, "request_human_input": true, "task": false, "search": false} {
		if got := recognize.Asks(tool); got != want {
			t.Errorf("%s: %v, want %v", tool, got, want)
		}
	}
}

func TestLooseNumbers(t *testing.T) {
	t.Parallel()
	click := func(args string) any { return recognize.LooseNumbers("computer", []byte(args)) }
	if click(`{"x":1,"y":22}`) != click(`{"x": 13, "y": 4}`) {
		t.Error("clicks side by side differ")
	}
	if click(`{"x":1,"y":22}`) == click(`{"x":1}`) {
		t.Error("other arguments are the same")
	}
}
