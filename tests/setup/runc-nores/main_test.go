package main

import "testing"

func TestParseFindsCommandAndBundle(t *testing.T) {
	for _, c := range []struct {
		args            []string
		command, bundle string
	}{
		{[]string{"--root", "/r", "--log-format", "json", "create", "--bundle", "/b", "--pid-file", "p", "id"}, "create", "/b"},
		{[]string{"--root=/r", "run", "-b=/b", "id"}, "run", "/b"},
		{[]string{"--log", "create", "state", "id"}, "state", "."},
		{[]string{"update", "--resources", "-", "id"}, "update", "."},
	} {
		if command, bundle := parse(c.args); command != c.command || bundle != c.bundle {
			t.Errorf("%v: got %q %q", c.args, command, bundle)
		}
	}
}

func TestAdaptDropsWhatNothingEnforces(t *testing.T) {
	spec := `{"annotations":{"io.kubernetes.cri.sandbox-uid":"u1"},"linux":{"cgroupsPath":"/k8s.io/c1","resources":` +
		`{"cpu":{"cpus":"0","shares":2},"devices":[{"allow":false}],"memory":{"limit":9223372036854775807},"pids":{"limit":10}}}}`
	for have, want := range map[string]string{
		"":           `{"devices":[{"allow":false}]}`,
		"pids":       `{"devices":[{"allow":false}],"pids":{"limit":10}}`,
		"cpu memory": `{"cpu":{"shares":2},"devices":[{"allow":false}],"memory":{"limit":9223372036854775807}}`,
	} {
		got, err := adapt([]byte(spec), controllers(have))
		want = `{"annotations":{"io.kubernetes.cri.sandbox-uid":"u1"},"linux":{"cgroupsPath":"/kubepods/podu1/c1","resources":` + want + `}}`
		if err != nil || string(got) != want {
			t.Errorf("with %q: got %s, %v", have, got, err)
		}
	}
}

func TestAdaptLeavesOtherCgroupsAlone(t *testing.T) {
	spec := `{"linux":{"cgroupsPath":"/k8s.io/c1"}}`
	if got, err := adapt([]byte(spec), nil); err != nil || string(got) != spec {
		t.Errorf("got %s, %v", got, err)
	}
}
