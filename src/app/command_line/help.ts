/** Help for each command, from the same tables that the flags are read with. @module */

import { DATAPLANE_FLAGS } from "../consul_dataplane/flags.ts";
import type { HelpTopic } from "./args.ts";
import { laidOut } from "./help_layout.ts";
import type { FlagGroup } from "../flags/parse_flags.ts";
import { PROXY_FLAGS } from "../flags/proxy_flags.ts";
import {
  CHECK_FLAGS,
  DEV_FLAGS,
  DOCTOR_FLAGS,
  EVENTS_FLAGS,
  EXPLAIN_FLAGS,
  PLUGIN_DEV_FLAGS,
  PLUGIN_TEST_FLAGS,
  STATUS_FLAGS,
  TAP_FLAGS,
  TOP_FLAGS,
  UPGRADE_FLAGS,
  VERSION_FLAGS,
  WAIT_READY_FLAGS,
} from "./command_flags.ts";

/** The flags of each command; `check` takes those of `proxy`. */
export const FLAGS: Readonly<Partial<Record<HelpTopic, readonly FlagGroup[]>>> = {
  proxy: PROXY_FLAGS,
  dataplane: DATAPLANE_FLAGS,
  check: CHECK_FLAGS,
  doctor: DOCTOR_FLAGS,
  dev: DEV_FLAGS,
  "wait-ready": WAIT_READY_FLAGS,
  explain: EXPLAIN_FLAGS,
  events: EVENTS_FLAGS,
  status: STATUS_FLAGS,
  upgrade: UPGRADE_FLAGS,
  top: TOP_FLAGS,
  tap: TAP_FLAGS,
  plugin: [...PLUGIN_TEST_FLAGS, ...PLUGIN_DEV_FLAGS],
  version: VERSION_FLAGS,
};

/** The pages as they are printed; `{flags}` is the place of the flags. */
export const PAGES: Readonly<Record<HelpTopic, string>> = {
  "": `Usage: postern COMMAND [flags]

A sidecar proxy for Consul service mesh: identity, intentions and mutual TLS for a service that
implements none of them.

Examples:
  # Run the sidecar of the service id web-1, as with consul connect proxy:
  postern proxy -sidecar-for web-1
  # Try a whole mesh on this machine, without Consul:
  postern dev -demo
  # Start an application once its sidecar can carry traffic:
  postern wait-ready -sidecar-for web-1 && exec my-application

Commands:
  proxy          Run a sidecar ("connect proxy" is the same)
  dataplane      Run a sidecar with the flags and variables of consul-dataplane
  check          Check flags, a configuration file or a registration; start nothing
  doctor         Find what lets traffic fail now, in Consul and on this machine, with the fix
  dev            Run an agent in memory, to try a mesh without Consul
  wait-ready     Wait until a running proxy is ready
  explain        Say what would happen to a request now, and why; explain an error code
  events         Show what changed in running proxies, and what it ended
  status         Show every sidecar of this machine: state, certificate, endpoints, troubles
  upgrade        Replace a running proxy by the new executable, without losing a connection
  top            Show rate, errors, latency and bytes by caller, upstream, endpoint and route
  tap            Show each connection and request as it ends
  plugin         List plugins; create, check and test your own
  completion     Print the completion script of a shell
  schema         Print the JSON Schema of configuration files
  version        Print version, commit and engine
  help COMMAND   Show the flags of a command, and examples

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration (nothing was started).
`,
  proxy: `Usage: postern proxy -sidecar-for ID [flags]
       postern proxy -service NAME -upstream NAME:PORT [flags]
       postern proxy -config FILE [flags]

Runs a sidecar. Connections from the mesh reach the local application if their certificate and the
intentions allow them. Connections of the application reach its upstreams over mutual TLS. Accepts
the flags and variables of consul connect proxy.

Examples:
  # The sidecar registered for the service id web-1:
  postern proxy -sidecar-for web-1
  # With an ACL token and TLS to the agent:
  CONSUL_HTTP_ADDR=https://127.0.0.1:8501 postern proxy -sidecar-for web-1 \\
    -token-file /etc/postern/token -ca-file /etc/postern/agent-ca.pem
  # Reach db as the service web on local port 9191, without a registration:
  postern proxy -service web -upstream db:9191
  # Accept connections from the mesh for db:
  postern proxy -service db -listen :8443 -service-addr 127.0.0.1:5432
  # Without Consul:
  postern proxy -config /etc/postern/web.yaml

{flags}

After SIGTERM or SIGINT, new connections are accepted for -settle-time; then open ones may finish,
and the proxy exits with 0. A second signal ends it at once. SIGHUP reads files again (token, CA,
configuration). Further variables: CONSUL_HTTP_SSL, CONSUL_HTTP_SSL_VERIFY, CONSUL_HTTP_AUTH.
`,
  dataplane: `Usage: postern dataplane -addresses ADDRESS -proxy-id ID -proxy-node-name NAME [flags]

Runs a sidecar beside Consul's servers, in place of consul-dataplane and its Envoy. Accepts the
flags, variables and configuration file of consul-dataplane, and answers on its addresses and paths.
An executable named consul-dataplane runs this command by default. Flags without an effect are
logged at start.

Examples:
  # As an orchestrator starts consul-dataplane:
  postern dataplane -addresses consul.example -proxy-id web-1-sidecar-proxy \\
    -proxy-node-name vm-1 -ca-certs /etc/postern/consul-ca.pem \\
    -tls-server-name server.dc1.consul
  # From a file:
  postern dataplane -config-file /consul/consul-dataplane.json
  # Check whether the proxy on this machine is ready:
  postern dataplane -check-proxy-health

{flags}

After SIGTERM or SIGINT the grace period begins; the process then exits with 0. A second signal ends
it at once. SIGHUP reads files again. Exit codes: 0 done, 1 failed, as with consul-dataplane.
`,
  check: `Usage: postern check FILE
       postern check [flags of postern proxy]

Checks flags and configuration as postern proxy reads them, prints the faults and exits. Reads every
secret once, also from servers. For a proxy that Consul knows (-sidecar-for, -proxy-id, -gateway) it
asks the agent, and lists the parts of the registration and config entries that Postern does not
follow; give it the address and token of the proxy (CONSUL_HTTP_ADDR). Starts nothing and listens
nowhere. Exits with 2 if a part is refused, as a plugin whose configuration is wrong is; ignored
parts are only listed, or with -strict make it exit with 1.

Examples:
  # A configuration file:
  postern check /etc/postern/web.json
  # Configuration of a sidecar that Postern does not follow:
  postern check -sidecar-for web-1
  # A command line:
  postern check -service web -upstream db:9191 -drain-timeout 20s

{flags}

FILE is -config FILE. Takes every flag of postern proxy; see "postern proxy -help".
`,
  doctor: `Usage: postern doctor [flags of postern proxy]
       postern doctor -admin ADDRESS [flags]

Looks for everything that lets traffic fail now, and says for each finding what it is, why it
matters and what to do about it: Consul and the rights of the token, the registration and its checks
in the catalog, configuration that Postern does not follow, upstreams without instances, intentions
that deny us, protocols that differ between caller and callee, intentions that decide nothing,
certificates and the clock, ports, the application, descriptors, and what the running proxy says. It
takes the flags of the proxy, or looks at every proxy that runs on this machine; Consul is asked
with the token that is given here. Changes nothing. Exits with 1 where traffic of a proxy fails,
with 0 if there are only warnings, with 2 for wrong usage. "postern check -online" is the same.

Examples:
  # Every proxy that runs on this machine:
  postern doctor
  # A registered sidecar, also before it is started:
  postern doctor -sidecar-for web-1 -token-file /etc/postern/token
  # In a script:
  postern doctor -admin 127.0.0.1:19000 -json

{flags}

Takes every flag of postern proxy; see "postern proxy -help".
`,
  dev: `Usage: postern dev [flags]

Runs an agent in memory behind Consul's HTTP API: catalog, health, certificates, intentions,
discovery chains. It keeps no data after its end. Not for production.

Examples:
  # An agent for tests, on a free port:
  postern dev -http-addr 127.0.0.1:0
  # A mesh to try:
  postern dev -demo
  # Deny connections that no intention allows:
  postern dev -default-policy deny

{flags}
`,
  "wait-ready": `Usage: postern wait-ready [flags]

Waits until a running proxy is ready: listeners bound, certificate and roots valid, first complete
state applied. Then it exits with 0 and prints the proxy; at the timeout it exits with 1 and prints
the reasons. The proxy is found by the flags that it was started with: admin servers on ports 19000
to 19100 of 127.0.0.1 are asked, Consul is not.

Examples:
  # Start the application after its sidecar:
  postern wait-ready -sidecar-for web-1 -timeout 60s && exec my-application
  # Until Consul's checks pass again, after a restart:
  postern wait-ready -sidecar-for web-1 -catalog -timeout 60s
  # Until every upstream can be used, too:
  postern wait-ready -sidecar-for web-1 -upstreams -timeout 60s
  # A proxy with another admin address:
  postern wait-ready -admin 127.0.0.1:9901

{flags}
`,
  explain: `Usage: postern explain [flags] [METHOD] http://UPSTREAM/PATH [-H 'NAME: VALUE']
       postern explain [flags] ID
       postern explain CODE
       postern explain [flags] -inbound [-source SERVICE] [METHOD] [/PATH] [-H 'NAME: VALUE']

Explains what would happen to a request now. The request is not sent; the proxy connects to
instances and to the application to see whether they are reachable. For an upstream: route, request
as sent, plugins, splits, targets, instances, and the intentions of the called service. For the own
service (-inbound): the deciding intention and permission, and why others do not apply. UPSTREAM is
an upstream's name, id or address, or a host of an ingress; ID replaces the URL. Exits with 0 if the
request goes on, with 1 if it is refused or would fail, with 2 if there is no answer: wrong usage,
no such upstream, no proxy.

Examples:
  # The destination of a request of the application web:
  postern explain -sidecar-for web-1 GET http://db/orders?id=7 -H x-canary:1
  # A TCP upstream, or one of several upstreams of a service:
  postern explain -sidecar-for web-1 'db?dc=dc2'
  # Whether shop may change an order, and by which rule:
  postern explain -sidecar-for db-1 -inbound -source shop PUT /orders/7
  # Whether batch may connect to a TCP service:
  postern explain -sidecar-for db-1 -inbound -source batch
  # Cause and cure of the code of a log line or metric:
  postern explain endpoint_refused

{flags}
`,
  events: `Usage: postern events [flags]

Shows what changed in the running proxies, oldest first: intentions with the open connections that
they ended, routes, instances, ejections, limits, plugins, certificates, listeners, sources, refused
configuration, restarts. Each proxy keeps the last 1,000. Those of a day end with its sums. Exits
with 2 if there is no answer. Times are UTC.

Examples:
  # The last ten minutes of all proxies on this machine:
  postern events -since 10m
  # The last day of one:
  postern events -sidecar-for web-1 -since 24h
  # Intentions and routes, as they change:
  postern events -sidecar-for web-1 -follow -kind intention,chain

{flags}
`,
  upgrade: `Usage: postern upgrade [-sidecar-for ID] [-timeout DURATION]

Has a running proxy (SIGUSR2) start its executable again, from the same path and with the same
flags. The new process gets the listening sockets and loads. When it is ready it takes over, and the
old one drains. Exit code 1: the old process goes on serving, and the reason is printed. Needs the
rights to signal the proxy: run it as the same user, or as root. Linux only.

Examples:
  # After the file /usr/local/bin/postern was replaced:
  postern upgrade -sidecar-for web-1
  # Under systemd:
  systemctl kill -s SIGUSR2 --kill-whom=main postern@web-1

{flags}
`,
  status: `Usage: postern status [flags]

Shows the sidecars of this machine: state with the reasons, identity, time left of the certificate
that expires first, endpoints of its upstreams (healthy of all, and ejected ones), open connections,
and what is wrong. They are found by their admin servers; Consul is not asked. Exits with 0 if all
are ready and carry their traffic, with 1 if one is not ready or a part of its traffic fails, such
as an upstream without an instance, with 2 for wrong usage or if there is none.

Examples:
  # Every sidecar of this machine:
  postern status
  # One of them, in a script; also certificates that should have been renewed:
  postern status -sidecar-for web-1 -strict -quiet && echo fine
  # Sidecars with admin addresses of their own:
  postern status -admin 127.0.0.1:9901,10.0.0.7:19000

{flags}
`,
  top: `Usage: postern top [flags]

Shows the traffic of the sidecars of this machine: requests and errors a second, latency (p50 and
p99), bytes a second and open requests, by caller, upstream, endpoint and route. On a terminal the
table is refreshed in place; otherwise one table is printed. A connection that carries no HTTP
counts as a request when it ends. Exits with 1 if no sidecar answers.

Examples:
  # All sidecars of this machine:
  postern top
  # The slowest first:
  postern top -sort p99
  # One plain table, by upstream alone:
  postern top -sidecar-for web-1 -once -by upstream -interval 10s

{flags}
`,
  tap: `Usage: postern tap [flags]

Shows each connection and request of the sidecars of this machine as it ends: time, status,
duration, caller, destination, path without its query, why it failed and by which rule. Bodies are
never shown, values of headers only where -header names them. The proxies filter; lines that come
faster than they are read (500 a second at most) are counted as dropped. Ends with Ctrl-C, or when
the reader of a pipe leaves. Times are UTC. Without a tap nothing of this costs anything.

Examples:
  # Everything that is refused:
  postern tap -denied
  # Failures of one upstream:
  postern tap -sidecar-for web-1 -upstream db -status 5xx
  # Slow requests below a path, with a header of theirs, as JSON:
  postern tap -path /orders -slow 100ms -header x-request-id -json

{flags}
`,
  plugin: `Usage: postern plugin list
       postern plugin types
       postern plugin new NAME
       postern plugin check FILE...
       postern plugin test FILE... [-only TEXT] [-watch]
       postern plugin bundle FILE...
       postern plugin dev FILE [-config JSON]

Works with the plugins that process requests. list prints the plugins inside the executable, with
their phase. new creates a directory with a working plugin: module, tests, and types for an editor;
it overwrites nothing. check prints faults of types and contract, with file, line and column, and
the modules to allow. test runs the tests of a plugin, a test file or a directory. Both exit with 1
on a fault. bundle writes a plugin, all that it imports and a list of its packages (CycloneDX) into
one file beside it, which a proxy takes where it takes a source. dev runs a mesh on this machine
with the plugin in it, loads the plugin again whenever it is saved, and shows its effect on each
request. types prints the contract between the proxy and a plugin, as types.

Examples:
  # Plugins that need no file:
  postern plugin list
  # Create a plugin in the directory shop_rules:
  postern plugin new shop_rules
  # Check its types and its contract:
  postern plugin check shop_rules.ts
  # Run its tests, shop_rules_test.ts:
  postern plugin test shop_rules.ts
  # Run some of them, again after each change:
  postern plugin test shop_rules.ts -only refuses -watch
  # Write shop_rules.bundle, to copy it to other hosts:
  postern plugin bundle shop_rules.ts
  # See its effect on requests while you write it:
  postern plugin dev shop_rules.ts

{flags}
`,
  completion: `Usage: postern completion bash
       postern completion zsh
       postern completion fish

Prints a script that completes commands, flags and values when you press Tab. It also completes the
ids of proxies that run on this machine, and their upstreams: it asks their admin servers.

Examples:
  # bash, for all users; needs no other package:
  postern completion bash > /etc/bash_completion.d/postern
  # bash, in ~/.bashrc:
  source <(postern completion bash)
  # zsh, in a directory of $fpath, before compinit runs:
  postern completion zsh > /usr/local/share/zsh/site-functions/_postern
  # fish:
  postern completion fish > ~/.config/fish/completions/postern.fish
`,
  schema: `Usage: postern schema

Prints the JSON Schema of the file that postern proxy -config reads. Editors that know it complete
keys and mark mistakes in JSON and YAML.

Examples:
  # For the key "$schema" of a file beside it:
  postern schema > postern.schema.json
`,
  version: `Usage: postern version
       postern version -check URL

Prints version, commit and engine. Without -check it sends no request.

Examples:
  # Whether a newer version was published:
  postern version -check https://example.com/postern/SHA256SUMS

{flags}
`,
};

/** The help of a command, ending with a line break; without `width` as a table of the docs has it. */
export function helpText(topic: HelpTopic, width: number = 100): string {
  return laidOut(PAGES[topic], FLAGS[topic] ?? [], width);
}
