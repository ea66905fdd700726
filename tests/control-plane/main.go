// The control plane of tests and the demo: one binary, the first argument (or the name it is called by) says which part runs.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // time zones of CronJobs

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// parts maps the name of a part to what runs it. Each sees the arguments after its own name, as the stand-alone program would.
var parts = map[string]func(args []string){
	"etcd":                    etcdmain.Main,
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 component(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kubectl":                 runKubectl,
}

func component(command func() *cobra.Command) func([]string) {
	return func([]string) { os.Exit(cli.Run(command())) }
}

func runKubectl(args []string) {
	// kubectl reads its verbosity before it parses its flags, so that the setting holds while the command is built.
	logs.GlogSetter(kubectl.GetLogVerbosity(args)) //nolint:errcheck
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

func main() {
	// A link named like a part is that part: `kubectl get pods` needs no first argument.
	name, args := filepath.Base(os.Args[0]), os.Args
	if _, known := parts[name]; !known && len(os.Args) > 1 {
		name, args = os.Args[1], os.Args[1:]
	}
	run, known := parts[name]
	if !known {
		names := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"}
		fmt.Fprintf(os.Stderr, "usage: control-plane PART [FLAGS], where PART is one of %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	// The parts parse os.Args themselves; kubectl also looks for its plugins by os.Args[0].
	os.Args = append([]string{name}, args[1:]...)
	run(os.Args)
}
