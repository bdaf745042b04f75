package toolname_test

import (
	"testing"

	"github.com/unloop/unloop/schemas/toolname"
)

func TestToolsThatTakeDownThoughts(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]bool{
		"think": true, "sequentialthinking": false, "sequential_thinking": true, "TodoWrite": true, "update_plan": true, "bash": false, "create_plan": false, "rethink": false,
	} {
		if got := toolname.IsThought(tool); got != want {
			t.Errorf("IsThought(%s): %v, want %v", tool, got, want)
		}
	}
}

func TestWordsOfNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"get_job_status": true, "getJobStatus": true, "job-status": true, "STATUS": true, "Status2": true, "7status": true,
		"statusbar": false, "getStatuses": false, "stat us": false, "": false, "___": false,
	} {
		if got := toolname.HasWord(name, []string{"other", "status"}); got != want {
			t.Errorf("HasWord(%q): %v, want %v", name, got, want)
		}
	}
	if toolname.HasWord("status", nil) {
		t.Error("a name has none of no words")
	}
}
