package roles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// period is the time in µs in which a share of a processor is used up and given anew.
const period = 10_000

// setting is a file of a control group and what is written to it.
type setting struct{ file, value string }

// controllers are where control groups for processor time can be made, and how: version
// 2, then version 1.
var controllers = []struct {
	folder   string
	settings func(quota int) []setting
}{
	{"/sys/fs/cgroup", func(quota int) []setting { return []setting{{"cpu.max", fmt.Sprintf("%d %d", quota, period)}} }},
	{"/sys/fs/cgroup/cpu", func(quota int) []setting {
		return []setting{{"cpu.cfs_period_us", strconv.Itoa(period)}, {"cpu.cfs_quota_us", strconv.Itoa(quota)}}
	}},
}

// Share lets the process have a share of one processor and no more. end removes the
// control group for that once the process has stopped. It is an error where the user may
// make no control groups.
func (p *Process) Share(share float64) (end func() error, err error) {
	var broken []error
	for _, c := range controllers {
		if _, err := os.Stat(filepath.Join(c.folder, "cgroup.procs")); err != nil {
			broken = append(broken, fmt.Errorf("find control groups: %w", err))
			continue
		}
		group := filepath.Join(c.folder, "unloop-bench-"+strconv.Itoa(p.PID()))
		err := bound(group, append(c.settings(int(share*period)), setting{"cgroup.procs", strconv.Itoa(p.PID())}))
		if err == nil {
			return func() error { return os.Remove(group) }, nil
		}
		broken = append(broken, err)
	}
	return nil, errors.Join(broken...)
}

// bound makes a control group.
func bound(group string, settings []setting) error {
	if err := os.Mkdir(group, 0o755); err != nil {
		return fmt.Errorf("make a control group: %w", err)
	}
	for _, s := range settings {
		if err := os.WriteFile(filepath.Join(group, s.file), []byte(s.value), 0o644); err != nil {
			return errors.Join(fmt.Errorf("set up a control group: %w", err), os.Remove(group))
		}
	}
	return nil
}
