// Command kube is a Kubernetes control plane for the suite: the API server, the controller manager
// and etcd in one binary, because three links take three times as long as one.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kube apiserver|controller-manager|etcd [OPTION…]")
		os.Exit(2)
	}
	part := os.Args[1]
	os.Args = append(os.Args[:1], os.Args[2:]...)
	switch part {
	case "apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "controller-manager":
		os.Exit(cli.Run(manager.NewControllerManagerCommand()))
	case "etcd":
		// A write-ahead log is reserved in whole segments: 1 MiB instead of 64 is enough for tests.
		wal.SegmentSizeBytes = 1 << 20
		etcdmain.Main(os.Args)
	default:
		fmt.Fprintf(os.Stderr, "kube has no part %q\n", part)
		os.Exit(2)
	}
}
