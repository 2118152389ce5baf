// Command runc-nores stands in for runc on machines whose cgroup v2 hierarchy lacks controllers.
//
// A kubelet asks for limits that runc refuses to create there. This wrapper takes the limits that nothing can
// enforce out of the bundle, puts the container where a kubelet with per-pod cgroups expects it, and becomes runc.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	cgroupRoot  = "/sys/fs/cgroup"
	uidKey      = "io.kubernetes.cri.sandbox-uid"
	flatParent  = "/k8s.io" // where containerd puts what has no parent of its own
	defaultRunc = "/usr/sbin/runc"
)

func main() {
	args := os.Args[1:]
	// Only what the root hands down counts: a controller that exists but is not enabled below is refused too.
	enabled, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"))
	if err == nil { // cgroup v2; on v1 runc finds its controllers itself
		have := controllers(string(enabled))
		switch command, bundle := parse(args); {
		case command == "update" && !(have["cpu"] && have["memory"]):
			return // nothing to adjust: the limits were never set
		case command == "create" || command == "run":
			if err := rewrite(filepath.Join(bundle, "config.json"), have); err != nil {
				fmt.Fprintln(os.Stderr, "runc-nores:", err)
				os.Exit(1)
			}
		}
	}
	runc := os.Getenv("RUNC_REAL")
	if runc == "" {
		runc = defaultRunc
	}
	err = syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ())
	fmt.Fprintf(os.Stderr, "runc-nores: starting %s: %v\n", runc, err)
	os.Exit(127)
}

func controllers(list string) map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(list) {
		set[name] = true
	}
	return set
}

// parse finds runc's command and the bundle folder. Global options that take a value come before the command.
func parse(args []string) (command, bundle string) {
	valued := map[string]bool{"--root": true, "--log": true, "--log-format": true, "--criu": true, "--rootless": true}
	bundle = "."
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		switch {
		case command == "" && !strings.HasPrefix(name, "-"):
			command = name
		case command == "" && valued[name] && !inline:
			i++
		case command != "" && (name == "--bundle" || name == "-b"):
			if !inline && i+1 < len(args) {
				i++
				value = args[i]
			}
			bundle = value
		}
	}
	return command, bundle
}

func rewrite(file string, have map[string]bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := adapt(text, have)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	next := file + ".next"
	if err := os.WriteFile(next, changed, 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// adapt returns the container's specification as this machine can run it.
func adapt(text []byte, have map[string]bool) ([]byte, error) {
	var spec map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // limits are larger than a float can hold exactly
	if err := decoder.Decode(&spec); err != nil {
		return nil, err
	}
	linux, ok := spec["linux"].(map[string]any)
	if !ok {
		return text, nil
	}
	annotations, _ := spec["annotations"].(map[string]any)
	uid, _ := annotations[uidKey].(string)
	if cgroup, _ := linux["cgroupsPath"].(string); uid != "" && path.Dir(cgroup) == flatParent {
		linux["cgroupsPath"] = path.Join("/kubepods", "pod"+uid, path.Base(cgroup))
	}
	if resources, ok := linux["resources"].(map[string]any); ok {
		limit(resources, have)
	}
	return json.Marshal(spec)
}

// limit keeps the resources whose controller is there. Devices need none: cgroup v2 filters them by BPF.
func limit(resources map[string]any, have map[string]bool) {
	needs := map[string]string{
		"blockIO": "io", "hugepageLimits": "hugetlb", "memory": "memory", "pids": "pids", "rdma": "rdma",
		"network": "net_cls", // v1 only
	}
	for field, controller := range needs {
		if !have[controller] {
			delete(resources, field)
		}
	}
	if cpu, ok := resources["cpu"].(map[string]any); ok {
		for field := range cpu {
			controller := "cpu"
			if field == "cpus" || field == "mems" {
				controller = "cpuset"
			}
			if !have[controller] {
				delete(cpu, field)
			}
		}
		if len(cpu) == 0 {
			delete(resources, "cpu")
		}
	}
	if unified, ok := resources["unified"].(map[string]any); ok {
		for key := range unified {
			if controller, _, _ := strings.Cut(key, "."); !have[controller] {
				delete(unified, key)
			}
		}
	}
}
