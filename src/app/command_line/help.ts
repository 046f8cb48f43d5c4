/**
 * Help for each command, from the same tables that the flags are read with.
 *
 * @module
 */

import { DATAPLANE_FLAGS } from "../consul_dataplane/flags.ts";
import type { HelpTopic } from "./args.ts";
import type { FlagGroup, FlagSpec } from "./args_flags.ts";
import { PROXY_FLAGS } from "./args_proxy_table.ts";
import { EXPLAIN_FLAGS } from "./args_explain.ts";
import { DEV_FLAGS, PLUGIN_DEV_FLAGS, WAIT_READY_FLAGS } from "./args_tables.ts";

const WIDTH = 100;
const COLUMN = 34;

interface Page {
  readonly usage: readonly string[];
  readonly about: string;
  readonly examples: readonly (readonly [string, string])[];
  /** List of commands. */
  readonly commands?: string;
  readonly flags: readonly FlagGroup[];
  readonly notes?: string;
}

const PAGES: Readonly<Record<HelpTopic, Page>> = {
  "": {
    usage: ["postern COMMAND [flags]"],
    about:
      "A sidecar proxy for Consul service mesh: identity, intentions and mutual TLS in front of " +
      "a service that knows nothing of them.",
    examples: [
      [
        "Run the sidecar of the service id web-1, as with consul connect proxy:",
        "postern proxy -sidecar-for web-1",
      ],
      ["Try a whole mesh on this machine, without Consul:", "postern dev -demo"],
      [
        "Start an application only when its sidecar can carry traffic:",
        "postern wait-ready -sidecar-for web-1 && exec my-application",
      ],
    ],
    flags: [],
    commands: `  proxy          Run a sidecar ("connect proxy" is the same)
  dataplane      Run a sidecar with the flags and variables of consul-dataplane
  check          Say what is wrong with flags or a configuration file; start nothing
  dev            Run an agent in memory, to try and test a mesh without Consul
  wait-ready     Wait until a running proxy is ready
  explain        Say what would become of a request now, and why
  plugin         List plugins; write, check and test one of your own
  version        Print version, commit and engine
  help COMMAND   Show the flags of a command, and examples`,
    notes: "Exit codes: 0 done, 1 failed, 2 wrong usage or configuration (nothing was started).",
  },
  proxy: {
    usage: [
      "postern proxy -sidecar-for ID [flags]",
      "postern proxy -service NAME -upstream NAME:PORT [flags]",
      "postern proxy -config FILE [flags]",
    ],
    about: "Runs a sidecar: connections from the mesh reach the local application once their " +
      "certificate and the intentions allow them, and connections of the application reach its " +
      "upstreams over mutual TLS. Takes the flags and variables of consul connect proxy.",
    examples: [
      ["The sidecar registered for the service id web-1:", "postern proxy -sidecar-for web-1"],
      [
        "With an ACL token and TLS to the agent:",
        "CONSUL_HTTP_ADDR=https://127.0.0.1:8501 postern proxy -sidecar-for web-1 \\\n" +
        "    -token-file /etc/postern/token -ca-file /etc/postern/agent-ca.pem",
      ],
      [
        "Reach db as the service web on local port 9191, with nothing registered:",
        "postern proxy -service web -upstream db:9191",
      ],
      [
        "Be the public side of db, too:",
        "postern proxy -service db -listen :8443 -service-addr 127.0.0.1:5432",
      ],
      ["Without Consul:", "postern proxy -config /etc/postern/web.json"],
    ],
    flags: PROXY_FLAGS,
    notes:
      "SIGTERM and SIGINT stop accepting, let open connections finish and end with 0; a second one " +
      "ends at\nonce. SIGHUP reads files again (token, CA, configuration). Also honoured: " +
      "CONSUL_HTTP_SSL,\nCONSUL_HTTP_SSL_VERIFY, CONSUL_HTTP_AUTH.",
  },
  dataplane: {
    usage: ["postern dataplane -addresses ADDRESS -proxy-id ID -proxy-node-name NAME [flags]"],
    about:
      "Runs a sidecar beside Consul's servers alone, in place of consul-dataplane and its Envoy: " +
      "takes its flags, variables and configuration file, and answers where it answers. The " +
      "executable does the same by itself when its name is consul-dataplane. What of it is not there " +
      "is said at the start, by name.",
    examples: [
      [
        "As an orchestrator starts consul-dataplane:",
        "postern dataplane -addresses consul.example -proxy-id web-1-sidecar-proxy \\\n" +
        "    -proxy-node-name vm-1 -ca-certs /etc/postern/consul-ca.pem \\\n" +
        "    -tls-server-name server.dc1.consul",
      ],
      ["From a file:", "postern dataplane -config-file /consul/consul-dataplane.json"],
      ["Whether the one on this machine is ready:", "postern dataplane -check-proxy-health"],
    ],
    flags: DATAPLANE_FLAGS,
    notes:
      "SIGTERM and SIGINT begin the grace period and then end it with 0; a second one ends it at " +
      "once.\nSIGHUP reads files again. Exit codes: 0 done, 1 failed, as with consul-dataplane.",
  },
  check: {
    usage: ["postern check FILE", "postern check [flags of postern proxy]"],
    about: "Reads flags and configuration as postern proxy would, says what is wrong and ends. " +
      "Every secret is read once, those of servers, too. Of a proxy that Consul knows (-sidecar-for, " +
      "-proxy-id, -gateway) it asks the agent, and lists what its registration and config entries " +
      "ask for that Postern does not do; give it the address and token that the proxy has " +
      "(CONSUL_HTTP_ADDR). Starts nothing and listens nowhere. Ends with 2 where a part is refused; " +
      "what is only ignored is listed.",
    examples: [
      ["A configuration file:", "postern check /etc/postern/web.json"],
      ["What Postern would not do for a sidecar:", "postern check -sidecar-for web-1"],
      ["A command line:", "postern check -service web -upstream db:9191 -drain-timeout 20s"],
    ],
    flags: [],
    notes: 'FILE is -config FILE. Takes every flag of postern proxy; see "postern proxy -help".',
  },
  dev: {
    usage: ["postern dev [flags]"],
    about: "Runs an agent in memory behind Consul's HTTP API: catalog, health, certificates, " +
      "intentions, discovery chains. Everything is gone when it ends. Not for production.",
    examples: [
      ["An agent for tests, on a free port:", "postern dev -http-addr 127.0.0.1:0"],
      ["A whole mesh to play with:", "postern dev -demo"],
      ["Refuse what no intention allows:", "postern dev -default-policy deny"],
    ],
    flags: DEV_FLAGS,
  },
  "wait-ready": {
    usage: ["postern wait-ready [flags]"],
    about:
      "Asks the proxy's admin server until it is ready: listeners bound, certificate and roots " +
      "valid, first complete state applied. Ends with 0 when it is, and prints which proxy it is; " +
      "with 1 and the reasons at the timeout. The proxy is found by what it was started for: the " +
      "admin servers on ports 19000 to 19100 of 127.0.0.1 are asked, and Consul is not.",
    examples: [
      [
        "Start the application after its sidecar:",
        "postern wait-ready -sidecar-for web-1 -timeout 60s && exec my-application",
      ],
      [
        "Until Consul's checks pass again, after a restart:",
        "postern wait-ready -sidecar-for web-1 -catalog -timeout 60s",
      ],
      [
        "Until every upstream can be used, too:",
        "postern wait-ready -sidecar-for web-1 -upstreams -timeout 60s",
      ],
      [
        "One whose admin server is elsewhere:",
        "postern wait-ready -admin 127.0.0.1:9901",
      ],
    ],
    flags: WAIT_READY_FLAGS,
  },
  explain: {
    usage: [
      "postern explain [flags] [METHOD] http://UPSTREAM/PATH [-H 'NAME: VALUE']",
      "postern explain [flags] ID",
      "postern explain [flags] -inbound [-source SERVICE] [METHOD] [/PATH] [-H 'NAME: VALUE']",
    ],
    about:
      "Asks a running proxy what would become of a request that came now. The request is not " +
      "sent; the proxy connects to instances and to the application, to see whether they are there. " +
      "Towards an upstream: route, path as sent, plugins, splits, targets, each instance, and what the " +
      "intentions of the service say. Towards the own service: the intention and permission that " +
      "decide, and what the others lack. UPSTREAM is an upstream's name, id or address, or a host of " +
      "an ingress; an id stands in place of the URL. Ends with 0 where the request goes on, with 1 " +
      "where it is refused or would fail, with 2 where there is no answer: wrong usage, no such " +
      "upstream, no proxy.",
    examples: [
      [
        "Where a request of the application web goes:",
        "postern explain -sidecar-for web-1 GET http://db/orders?id=7 -H x-canary:1",
      ],
      [
        "An upstream of TCP, or one of several of a service:",
        "postern explain -sidecar-for web-1 'db?dc=dc2'",
      ],
      [
        "Whether shop may change an order, and by which rule:",
        "postern explain -sidecar-for db-1 -inbound -source shop PUT /orders/7",
      ],
      [
        "Whether batch may connect to a TCP service:",
        "postern explain -sidecar-for db-1 -inbound -source batch",
      ],
    ],
    flags: EXPLAIN_FLAGS,
  },
  plugin: {
    usage: [
      "postern plugin list",
      "postern plugin types",
      "postern plugin new NAME",
      "postern plugin check FILE...",
      "postern plugin test FILE...",
      "postern plugin dev FILE [-config JSON]",
    ],
    about: "What stands around requests. list says which plugins are inside the executable, with " +
      "their phase. new writes a directory with a plugin of your own that works: module, tests, and " +
      "types for an editor; it never overwrites. check says what is wrong with its types and its contract, by file, line and " +
      "column, and what it needs to be allowed. test runs the tests of a plugin, a test file or a " +
      "directory. Both end with 1 where something is wrong. dev runs a " +
      "mesh on this machine with the plugin in it, loads it anew whenever it is saved, and shows what it " +
      "does to each request. types writes the contract between the proxy and " +
      "a plugin, all of it types, to standard output.",
    examples: [
      ["What a configuration can use without a file:", "postern plugin list"],
      ["A plugin of your own, in the directory shop_rules:", "postern plugin new shop_rules"],
      ["Its types, and what a proxy would say of it:", "postern plugin check shop_rules.ts"],
      ["Its tests, which stand in shop_rules_test.ts:", "postern plugin test shop_rules.ts"],
      ["See what it does to requests while it is written:", "postern plugin dev shop_rules.ts"],
    ],
    flags: PLUGIN_DEV_FLAGS,
  },
  version: {
    usage: ["postern version"],
    about: "Prints version, commit and engine.",
    examples: [],
    flags: [],
  },
};

/** The help of a command, at most 100 columns wide, ending with a line break. */
export function helpText(topic: HelpTopic): string {
  const page = PAGES[topic];
  const parts = [
    page.usage.map((line, index) => `${index === 0 ? "Usage:" : "      "} ${line}`).join("\n"),
    wrap(page.about, WIDTH).join("\n"),
  ];
  if (page.examples.length > 0) {
    const examples = page.examples.map(([what, command]) => `  # ${what}\n  ${command}`);
    parts.push(`Examples:\n${examples.join("\n")}`);
  }
  if (page.commands !== undefined) parts.push(`Commands:\n${page.commands}`);
  for (const { title, flags } of page.flags) {
    parts.push(`${title}:\n${flags.map(describe).join("\n")}`);
  }
  if (page.notes !== undefined) parts.push(page.notes);
  return `${parts.join("\n\n")}\n`;
}

function describe(flag: FlagSpec): string {
  const head = `  -${flag.name}${flag.value === undefined ? "" : ` ${flag.value}`}`;
  let about = flag.help;
  if (flag.env !== undefined) about += ` [$${flag.env}]`;
  if (flag.byDefault !== undefined) about += ` (default: ${flag.byDefault})`;
  const lines = wrap(about, WIDTH - COLUMN);
  const indent = " ".repeat(COLUMN);
  if (head.length + 2 > COLUMN) return [head, ...lines.map((line) => indent + line)].join("\n");
  return lines.map((line, index) => (index === 0 ? head.padEnd(COLUMN) : indent) + line).join("\n");
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}
