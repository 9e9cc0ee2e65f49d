//go:build linux && (amd64 || arm64)

package plugin

import (
	"context"
	"errors"

	"github.com/nicless/nicless/deploy/internal/engines"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A server answers the kubelet. gRPC calls it from several goroutines.
type server struct {
	api.UnimplementedDevicePluginServer
	cfg     *Config
	closing <-chan struct{} // closed when streams are to end
}

// options says that the kubelet is to call PreStartContainer before each start of a container. It is the
// only sign that a container restarts.
func options() *api.DevicePluginOptions { return &api.DevicePluginOptions{PreStartRequired: true} }

func (s *server) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return options(), nil
}

type listStream = grpc.ServerStreamingServer[api.ListAndWatchResponse]

// ListAndWatch tells the kubelet the devices at once, and again whenever the health of one changes.
func (s *server) ListAndWatch(_ *api.Empty, stream listStream) error {
	for {
		list, changed := s.cfg.Pool.Devices()
		all := new(api.ListAndWatchResponse)
		for _, d := range list {
			health := api.Healthy
			if !d.Healthy {
				health = api.Unhealthy
			}
			all.Devices = append(all.Devices, &api.Device{ID: d.ID, Health: health})
		}
		if err := stream.Send(all); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		case <-s.closing:
			return nil
		}
	}
}

// Allocate gives devices to containers. Nothing happens if one of the requests is wrong.
func (s *server) Allocate(_ context.Context, all *api.AllocateRequest) (*api.AllocateResponse, error) {
	var named []string
	for _, r := range all.ContainerRequests {
		if err := s.cfg.Pool.Check(r.DevicesIds); err != nil {
			return nil, s.refused("Allocate", err)
		}
		named = append(named, r.DevicesIds...)
	}
	if err := engines.CheckOnce(named); err != nil {
		return nil, s.refused("Allocate", err)
	}
	answers := new(api.AllocateResponse)
	for _, r := range all.ContainerRequests {
		lead, err := s.cfg.Pool.Allocate(r.DevicesIds)
		if err != nil {
			return nil, s.refused("Allocate", err)
		}
		a, err := s.answer(lead)
		if err != nil {
			return nil, s.refused("Allocate", err)
		}
		answers.ContainerResponses = append(answers.ContainerResponses, a)
		s.cfg.Log.Info("a container gets devices", "devices", r.DevicesIds)
	}
	return answers, nil
}

// PreStartContainer makes an engine for a container that is about to start.
func (s *server) PreStartContainer(ctx context.Context, r *api.PreStartContainerRequest) (
	*api.PreStartContainerResponse, error) {
	if err := s.cfg.Pool.Start(ctx, r.DevicesIds); err != nil {
		return nil, s.refused("PreStartContainer", err)
	}
	return new(api.PreStartContainerResponse), nil
}

// refused returns the error as gRPC has it, which the kubelet shows as an event of the pod.
func (s *server) refused(call string, err error) error {
	s.cfg.Log.Error("refused", "call", call, "error", err)
	code := codes.Internal
	if errors.Is(err, engines.ErrUnknown) || errors.Is(err, engines.ErrNumber) {
		code = codes.InvalidArgument
	}
	return status.Errorf(code, "nicless: %v", err)
}
