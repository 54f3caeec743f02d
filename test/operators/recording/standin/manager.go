package standin

import (
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Manager implements the methods of a manager that constructors of reconcilers and webhooks use.
// Any other method panics.
type Manager struct {
	manager.Manager
	client client.Client
	server webhook.Server
}

// NewManager returns a manager whose client and reader is c.
func NewManager(c client.Client) *Manager {
	return &Manager{client: c, server: webhook.NewServer(webhook.Options{})}
}

// GetClient returns the client.
func (m *Manager) GetClient() client.Client { return m.client }

// GetAPIReader returns the same client.
func (m *Manager) GetAPIReader() client.Reader { return m.client }

// GetScheme returns the client's scheme.
func (m *Manager) GetScheme() *runtime.Scheme { return m.client.Scheme() }

// GetConfig returns an empty configuration.
func (m *Manager) GetConfig() *rest.Config { return &rest.Config{} }

// GetWebhookServer returns a server that is never started.
func (m *Manager) GetWebhookServer() webhook.Server { return m.server }

// GetLogger returns a logger that discards everything.
func (m *Manager) GetLogger() logr.Logger { return logr.Discard() }

// GetEventRecorderFor returns a recorder that discards everything.
func (m *Manager) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

// GetEventRecorder returns a recorder that discards everything.
func (m *Manager) GetEventRecorder(string) events.EventRecorder { return &events.FakeRecorder{} }
