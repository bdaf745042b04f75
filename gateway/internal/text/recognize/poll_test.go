package recognize_test

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
)

func TestPollsAreKnownByToolAndArguments(t *testing.T) {
	t.Parallel()
	for _, poll := range []struct{ tool, args string }{
		{"shell_exec", `{"command": "docker ps --status"}`},
		{"shell_exec", `{"command": "docker ps"}`},
		{"shell_exec", `{"command": "DOCKER PS"}`},
		{"shell_exec", `{"command": "tail -f /var/log/app.log"}`},
		{"shell_exec", `{"command": "kubectl get pods -n production --field-selector=status.phase=Running"}`},
		{"shell_exec", `{"command": "systemctl status nginx.service"}`},
		{"shell_exec", `{"command": "curl -s http://localhost:8080/health"}`},
		{"shell_exec", `{"command": "curl -s http://localhost:8080/"}`},
		{"shell_exec", `{"command": "docker inspect my-container"}`},
		{"shell_exec", `{"command": "check status of service"}`},
		{"shell_exec", `{"command": "poll for results"}`},
		{"shell_exec", `{"command": "wait for completion"}`},
		{"shell_exec", `{"command": "my-app --health-endpoint /api"}`},
		{"shell_exec", `{"command": "pg_isready --check --host=db"}`},
		{"shell_exec", `{"command": "ps aux"}`},
		{"shell_exec", `{"command": "custom", "status_check": true}`},
		{"shell_exec", `{"command": "custom", "poll_interval": 5000}`},
		{"shell_exec", `{"command": "custom", "wait_timeout": 30}`},
		{"shell_exec", `{"command": "custom", "poll": true}`},
		{"shell_exec", `{"command": "docker ps", "poll": 1}`},
		{"custom_tool", `{"poll": true}`},
		{"custom_tool", `{"deep": {"poll": false}, "poll": true}`},
		{"Bash", `{"command": "sleep 30 && gh run list"}`},
		{"bash", `{"command": "cd /srv; sudo docker ps"}`},
		{"local_shell", `{"cmd": ["bash", "-lc", "kubectl wait pod/x"]}`},
		{"mcp__host__run_command", `{"command": "systemctl is-active nginx"}`},
		{"get_job_status", `{"id": 7}`},
		{"waitForBuild", `{}`},
		{"BashOutput", `{"bash_id": "b1"}`},
	} {
		if !recognize.TraitsOf(poll.tool, []byte(poll.args)).Poll {
			t.Errorf("%s %s is a poll", poll.tool, poll.args)
		}
	}
}

func TestWhatOnlyLooksLikeAPollIsNone(t *testing.T) {
	t.Parallel()
	for _, call := range []struct{ tool, args string }{
		{"shell_exec", `{"command": "echo hi"}`},
		{"shell_exec", `{"command": "show detail"}`},
		{"shell_exec", `{"command": "run healthcheck"}`},
		{"shell_exec", `{"command": "docker ps", "poll": false}`},
		{"shell_exec", `{"poll": false, "command": "tail -f x", "wait": 1}`},
		{"shell_exec", `{"command": "go test ./... | tail -20"}`},
		{"shell_exec", `{"command": "cat > notes.txt <<EOF\nwait for the status\nEOF"}`},
		{"shell_exec", `{"command": "steps all"}`},
		{"shell_exec", `{"command": "git checkout main"}`},
		{"shell_exec", `{"command": 7}`},
		{"shell_exec", `{"command": [{"status": 1}]}`},
		{"shell_exec", `{"command": "docker ps"`},
		{"shell_exec", `docker ps`},
		{"shell_exec", `null`},
		{"shell_exec", `[1,2,3]`},
		{"shell_exec", `["docker ps"]`},
		{"shell_exec", `{}`},
		{"shell_exec", ``},
		{"file_read", `{"path": "/etc/hosts"}`},
		{"file_read", `{"path": "status.txt"}`},
		{"some_tool", `{"check": "status"}`},
		{"api_call", `{"action": "poll_results"}`},
		{"queue", `{"mode": "wait_for_completion"}`},
		{"browser_click", `{"wait_ms": 5}`},
		{"get_job_status", `{"id": 7, "poll": false}`},
		{"update_status", `{"id": 7}`},
		{"statusbar", `{}`},
		{"write_output", `{}`},
		{"", ``},
	} {
		if recognize.TraitsOf(call.tool, []byte(call.args)).Poll {
			t.Errorf("%s %s is no poll", call.tool, call.args)
		}
	}
}
