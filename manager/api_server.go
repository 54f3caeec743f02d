package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/internal/connections"
)

const (
	// apiServerPollInterval is the interval at which a process that starts looks for the API server.
	apiServerPollInterval = time.Second
	// apiServerTimeout bounds one request for this.
	apiServerTimeout = 10 * time.Second
)

// waitForAPIServer waits until the API server answers, or ctx is done. A process that cannot start without it would
// exit, and the kubelet waits up to 5 minutes before it starts the container again. Meanwhile, the liveness probe
// succeeds and the readiness probe fails.
func (o *commonOptions) waitForAPIServer(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the client configuration: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a discovery client: %w", err)
	}
	answers := func(ctx context.Context) (bool, error) {
		err := client.RESTClient().Get().AbsPath("/version").Timeout(apiServerTimeout).Do(ctx).Error()
		var status apierrors.APIStatus // an API server that refuses the request will not change its mind
		return err == nil || errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError, nil
	}
	if isThere, _ := answers(ctx); isThere {
		return nil
	}
	log.Log.Info("Waiting for the API server", "host", config.Host)
	if o.probeAddress != "0" {
		stop, err := serveLiveness(ctx, o.probeAddress)
		if err != nil {
			return err
		}
		defer stop()
	}
	if err := wait.PollUntilContextCancel(ctx, apiServerPollInterval, false, answers); err != nil {
		return fmt.Errorf("waiting for the API server: %w", err)
	}
	log.Log.Info("The API server answers")
	return nil
}

// serveLiveness serves a liveness probe that succeeds until stop is called. Other probes fail.
func serveLiveness(ctx context.Context, address string) (stop func(), err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {}) // status 200
	port, err := connections.NewPort("probes", address, mux, nil)
	if err != nil {
		return nil, fmt.Errorf("opening a port: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- port.Start(ctx) }()
	return func() {
		cancel()
		if err := <-stopped; err != nil {
			log.Log.Error(err, "Served the liveness probe")
		}
	}, nil
}
