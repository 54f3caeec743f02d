// Command coredns is CoreDNS with only the plugins for names of the cluster. The standard program
// links about fifty plugins, including the clients of three clouds.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"       // To listen on the nodes' bridge alone.
	_ "github.com/coredns/coredns/plugin/errors"     // To have failures in the log.
	_ "github.com/coredns/coredns/plugin/kubernetes" // Services' and pods' names.
	_ "github.com/coredns/coredns/plugin/log"        // To see queries, when asked to.
	_ "github.com/coredns/coredns/plugin/template"   // To answer "no such name" to all else.
)

func main() {
	coremain.Run()
}
