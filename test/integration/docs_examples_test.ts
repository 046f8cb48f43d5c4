/**
 * The examples of the docs, run: each is read by the parser that reads it in earnest, configuration
 * files are checked with the files, servers and sockets that they name, command lines are parsed, and
 * links lead somewhere.
 */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { PATHS } from "../../src/admin/home.ts";
import { HELP_TOPICS, parseCommand } from "../../src/app/command_line/args.ts";
import { dataplaneOptions } from "../../src/app/consul_dataplane/options.ts";
import { dataplaneValues } from "../../src/app/consul_dataplane/values.ts";
import { helpText } from "../../src/app/command_line/help.ts";
import { prepareRegexes, systemClock, systemRandom } from "../../src/base/mod.ts";
import { CONFIG_KEYS } from "../../src/consul/mod.ts";
import { readChain } from "../../src/consul/replies/discovery_chain.ts";
import { readIntentions } from "../../src/consul/replies/intentions.ts";
import { readDefaults } from "../../src/consul/replies/mesh_and_defaults.ts";
import { readRegistration } from "../../src/consul/replies/registration.ts";
import { readOwnRegistration } from "../../src/consul/servers/catalog/node_catalog.ts";
import { startDevAgent } from "../../src/dev/mod.ts";
import { mount } from "../../src/kit/mod.ts";
import { BUILT_IN_NAMES, loadBuiltIn } from "../../src/built_in/mod.ts";
import { whyNotUsable } from "../../src/plugin/mod.ts";
import { permissionFault } from "../../src/policy/mod.ts";
import { DEFAULT_ON_DEMAND_RULES, parseSdsServers, parseTlsConfig } from "../../src/secrets/mod.ts";
import type { Refusal } from "../../src/snapshot/mod.ts";
import { KNOWN_OPERATORS } from "../../src/http/access_log/line_format.ts";
import { accessLogPart } from "../../src/source/parts/access_logs.ts";
import { NO_PLANS } from "../../src/source/parts/credential_plans.ts";
import { planRegistration } from "../../src/source/consul/plan_registration.ts";
import { RegisteredPlugins } from "../../src/source/consul/registered_plugins.ts";
import { planChain } from "../../src/source/consul/plan.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startDevServers } from "../kit/dev_agent/servers/dev_servers.ts";
import { DevMesh } from "../kit/mesh/dev_mesh.ts";
import { runPostern } from "../kit/process/postern.ts";
import { inlineBundle, inlineCertificate, startSdsServer } from "../kit/secrets/sds_server.ts";
import { declaration } from "../kit/consul/snapshot_facts.ts";
import { LISTENER } from "../kit/secrets/tls_config.ts";
import { startWorkloadServer, svidOf } from "../kit/secrets/workload_server.ts";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const AGENT = "/run/spire/sockets/agent.sock";

interface Example {
  /** The heading above it, and its place there. */
  readonly name: string;
  /** The reader of the example; `undefined`: the page does not say. */
  readonly kind: string | undefined;
  readonly text: string;
}

/** README, every page of `docs` and those of plugins, by path from the root. */
const PAGES = new Map(
  await Promise.all(
    [
      "README.md",
      "CONTRIBUTING.md",
      ...(await readdir(join(ROOT, "docs"))).filter((name) => name.endsWith(".md"))
        .map((name) => `docs/${name}`),
      "plugins/README.md",
      ...BUILT_IN_NAMES.map((name) => `plugins/${name}/README.md`)
        .filter((path) => existsSync(join(ROOT, path))),
    ]
      .map(async (path) => [path, await readFile(join(ROOT, path), "utf8")] as const),
  ),
);

const EXAMPLES = [...PAGES].flatMap(([path, page]) =>
  page.split(/^#+ (?=\S)/m).flatMap((part) => {
    const [heading = ""] = part.split("\n");
    return [...part.matchAll(/(?:<!-- example: (\w+) -->\n+)?```(?:json|hcl)\n(.*?)```/gs)]
      .map(([, kind, text = ""], index): Example => ({
        name: `${path}: ${heading} ${index + 1}`,
        kind: kind ?? (path.startsWith("plugins/") ? "plugins" : undefined),
        text,
      }));
  })
);

function page(path: string): string {
  const text = PAGES.get(path);
  assert.ok(text !== undefined, `there is no ${path}`);
  return text;
}

function examplesOf(kind: string): readonly Example[] {
  const examples = EXAMPLES.filter((example) => example.kind === kind);
  assert.notEqual(examples.length, 0, `there is no example of kind ${kind}`);
  return examples;
}

/** The files of a machine that follows the page, below a directory of its own. */
class Machine implements AsyncDisposable {
  readonly root: string;
  readonly #authority = createAuthority({ trustDomain: "example.org" });

  private constructor(root: string) {
    this.root = root;
  }

  static async create(): Promise<Machine> {
    const machine = new Machine(await mkdtemp(join(tmpdir(), "page-")));
    await machine.#certbot();
    await machine.#sidecar();
    await machine.#webTls();
    await machine.#kubernetes();
    await mkdir(join(machine.root, "run/sds"), { recursive: true });
    await mkdir(join(machine.root, dirname(AGENT)), { recursive: true });
    return machine;
  }

  /** An example with this machine's paths in place of the page's. */
  placed(text: string): string {
    return text.replace(/(?<=")(?=\/(?:etc|run|var)\/)|(?<=unix:\/\/)(?=\/)/g, this.root);
  }

  async sdsServer(path: string): Promise<AsyncDisposable> {
    const server = await startSdsServer({ path: join(this.root, path) });
    const id = "spiffe://example.org/web";
    server.set(
      inlineCertificate("web", this.#leaf()),
      inlineCertificate(id, this.#leaf()),
      inlineBundle("clients", this.#authority.rootPem),
      inlineBundle("ALL", this.#authority.rootPem),
    );
    return server;
  }

  async workloadServer(): Promise<AsyncDisposable> {
    const address = { kind: "unix", path: join(this.root, AGENT) } as const;
    const server = await startWorkloadServer({ address });
    const bundles = { "spiffe://example.org": this.#authority.rootDer };
    server.sendSvids({ svids: [svidOf(this.#authority, "spiffe://example.org/web")] });
    server.sendBundles({ bundles });
    return server;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return rm(this.root, { recursive: true, force: true });
  }

  #leaf() {
    const uri = "spiffe://example.org/web";
    const { certPem, keyPem } = this.#authority.issueLeaf({ service: "web", uri });
    return { certPem, keyPem };
  }

  async #write(path: string, bytes: string | Uint8Array): Promise<void> {
    const file = join(this.root, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, bytes, { mode: 0o600 });
  }

  async #link(path: string, target: string): Promise<void> {
    const link = join(this.root, path);
    await mkdir(dirname(link), { recursive: true });
    await symlink(target, link);
  }

  async #sidecar(): Promise<void> {
    const mesh = createAuthority({ trustDomain: "11111111-2222-3333-4444-555555555555.consul" });
    const { certPem, keyPem } = mesh.issueLeaf({ service: "web" });
    const files = { "web.pem": certPem, "web.key": keyPem, "roots.pem": mesh.rootPem };
    for (const [name, pem] of Object.entries(files)) await this.#write(`etc/postern/${name}`, pem);
  }

  async #certbot(): Promise<void> {
    const { certPem, keyPem } = this.#leaf();
    for (const [name, pem] of [["fullchain", certPem], ["privkey", keyPem]] as const) {
      await this.#write(`etc/letsencrypt/archive/www.example.com/${name}1.pem`, pem);
      const target = `../../archive/www.example.com/${name}1.pem`;
      await this.#link(`etc/letsencrypt/live/www.example.com/${name}.pem`, target);
    }
  }

  async #webTls(): Promise<void> {
    const { certPem, keyPem } = this.#leaf();
    const at = (name: string) => `run/web-tls/${name}`;
    await this.#write(at("cert.pem"), certPem);
    await this.#write(at("key.pem"), keyPem);
    await this.#write(at("ca.pem"), this.#authority.rootPem);
    await this.#write(at("web.p12"), await readFile(join(ROOT, "test/fixtures/secrets/aes.p12")));
    await this.#write(at("password"), "secret\n");
    const file = (name: string) => `{ filename: ${JSON.stringify(join(this.root, at(name)))} }`;
    const secret = `name: db
tls_certificate:
  certificate_chain: ${file("cert.pem")}
  private_key: ${file("key.pem")}
`;
    await this.#write(
      at("db.yaml"),
      `resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  ${secret.trim().replaceAll("\n", "\n  ")}
`,
    );
  }

  async #kubernetes(): Promise<void> {
    const { certPem, keyPem } = this.#leaf();
    const mount = "var/run/secrets/web-tls";
    const files = { "tls.crt": certPem, "tls.key": keyPem, "ca.crt": this.#authority.rootPem };
    await this.#link(`${mount}/..data`, "..2026_11_21");
    for (const [name, pem] of Object.entries(files)) {
      await this.#write(`${mount}/..2026_11_21/${name}`, pem);
      await this.#link(`${mount}/${name}`, `..data/${name}`);
    }
  }
}

test("every block of JSON and HCL names its reader", () => {
  const silent = EXAMPLES.filter(({ kind }) => kind === undefined).map(({ name }) => name);
  assert.deepEqual(silent, []);
  const kinds = new Set(EXAMPLES.map(({ kind }) => kind));
  assert.deepEqual([...kinds].sort(), [
    "catalog",
    "config",
    "dataplane",
    "defaults",
    "entry",
    "fleet",
    "gateway",
    "intentions",
    "listener",
    "plugins",
    // Read by a real cluster, in `test/consul/page_without_an_agent_test.ts`.
    "policy",
    "registration",
    "routing",
    "servers",
  ]);
});

for (const { name, text } of examplesOf("config")) {
  test(`check finds nothing wrong with ${name}`, async () => {
    await using machine = await Machine.create();
    const usesAgent = text.includes(`unix://${AGENT}`);
    await using _sds = await machine.sdsServer(usesAgent ? AGENT : "run/sds/server.sock");
    await using _agent = usesAgent ? undefined : await machine.workloadServer();
    const file = join(machine.root, "postern.json");
    await writeFile(file, machine.placed(text));
    const env = { SPIFFE_ENDPOINT_SOCKET: `unix://${join(machine.root, AGENT)}` };
    await using checked = runPostern(["check", "-config", file], { env });
    checked.expectEnd();
    const { code } = await checked.process.waitExit({ timeoutMs: 20_000 });
    assert.equal(code, 0, checked.output);
    assert.match(checked.output, /^certificate .*^.*postern\.json is valid: service w/ms);
    assert.doesNotMatch(checked.output, /warning| {2}/);
  });
}

for (const { name, text } of examplesOf("intentions")) {
  test(`an agent takes the config entries, and each permission can be judged: ${name}`, async () => {
    await prepareRegexes();
    await using mesh = await DevMesh.start();
    for (const entry of JSON.parse(text)) await mesh.configEntry(entry);
    const reply = await mesh.get("/v1/connect/intentions/match?by=destination&name=db");
    const permissions = readIntentions(reply, "db").flatMap(({ permissions = [] }) => permissions);
    assert.equal(permissions.length, text.match(/"HTTP"/g)?.length);
    assert.deepEqual(permissions.map(permissionFault).filter((fault) => fault !== undefined), []);
  });
}

for (const { name, text } of examplesOf("routing")) {
  test(`an agent takes the config entries, and all of the chain is followed: ${name}`, async () => {
    await using mesh = await DevMesh.start();
    for (const entry of JSON.parse(text)) await mesh.configEntry(entry);
    const chain = readChain(await mesh.get("/v1/discovery-chain/db"));
    const plan = planChain(declaration("db"), chain, { datacenter: "dc1", partition: "default" });
    assert.equal(plan.kind, "targets", JSON.stringify(plan));
  });
}

for (const { name, text } of examplesOf("listener")) {
  test(`a listener takes ${name}`, () => {
    const parsed = parseTlsConfig(JSON.parse(text), LISTENER);
    assert.deepEqual(parsed.kind === "valid" ? parsed.warnings : parsed.problems, []);
  });
}

for (const { name, text } of examplesOf("servers")) {
  test(`SDS servers are described by ${name}`, () => {
    const { node } = LISTENER;
    const parsed = parseSdsServers(JSON.parse(text), { path: [], node });
    assert.deepEqual(parsed.kind === "valid" ? parsed.warnings : parsed.problems, []);
  });
}

for (const { name, text } of examplesOf("registration")) {
  test(`an agent takes the registration and nothing in it is passed over: ${name}`, async () => {
    const agent = await startDevAgent({ clock: systemClock, random: systemRandom });
    using _agent = { [Symbol.dispose]: () => agent.stop() };
    const put = { method: "PUT", body: text };
    const registered = await fetch(`${agent.address}/v1/agent/service/register`, put);
    assert.equal(registered.status, 200, await registered.text());
    const reply = await fetch(`${agent.address}/v1/agent/service/web-sidecar-proxy`);
    const registration = readRegistration(await reply.json(), "web-sidecar-proxy");
    assert.deepEqual(registration.warnings, []);
    const planned = planRegistration(registration, NO_PLANS, {});
    assert.deepEqual([planned.refused, planned.warnings], [[], []]);
    const { Proxy: { Config, Upstreams } } = JSON.parse(text).Connect.SidecarService;
    assert.equal(planned.inbound, Config?.postern_tls ? "inbound" : null);
    assert.equal(registration.upstreams.length, Upstreams.length);
  });
}

for (const { name, text } of examplesOf("catalog")) {
  test(`servers take the entry and nothing in it is passed over: ${name}`, async () => {
    await using servers = await startDevServers({
      clock: systemClock,
      random: systemRandom,
      count: 1,
    });
    const address = `http://${servers.servers[0]?.host}:${servers.httpPort}`;
    const put = { method: "PUT", body: text };
    const registered = await fetch(`${address}/v1/catalog/register`, put);
    assert.equal(registered.status, 200, await registered.text());
    const { Node, Service: { ID, Proxy } } = JSON.parse(text);
    const read = `${address}/v1/catalog/node-services/${Node}?merge-central-config`;
    const registration = readOwnRegistration(await (await fetch(read)).json(), {
      node: Node,
      proxyId: ID,
    });
    assert.deepEqual(registration?.warnings, []);
    assert.equal(registration?.upstreams.length, Proxy.Upstreams.length);
  });
}

for (const { name, text } of examplesOf("dataplane")) {
  test(`a sidecar is started from ${name}`, () => {
    const argv = ["dataplane", "-config-file", "consul-dataplane.json"];
    const command = parseCommand(argv, {});
    assert.ok(command.kind === "dataplane");
    const readText = (path: string) => path === argv[2] ? text : "";
    const values = dataplaneValues(command.words.flags, {}, readText);
    const options = dataplaneOptions(values, { forEnvoy: [], readText });
    assert.deepEqual(options.proxy.warnings, []);
    assert.equal(options.proxy.serversFlags?.login?.authMethod, "iam-ecs-service-token");
    assert.equal(options.lifecycle.shutdownGraceMs, 30_000);
  });
}

for (const { name, text } of examplesOf("fleet")) {
  test(`the plugins of ${name} are used at every listener of a sidecar`, async () => {
    const { Kind, Name, Config } = JSON.parse(text);
    const defaults = readDefaults({ Kind, Name, Config }, { kind: Kind, name: Name });
    const readKey = () => assert.fail("no plugin comes from the key/value store");
    const plugins = new RegisteredPlugins({ clock: systemClock, readKey, onChange() {} });
    const upstreams = ["payments", "db"].map((name) => ({ id: name, name }));
    plugins.follow({ upstreams }, defaults);
    assert.equal(await plugins.refresh(), true);
    const uses = ["inbound", "payments", "db"].map((listener) =>
      plugins.held.get(listener)?.used?.uses.map(({ plugin }) => plugin)
    );
    assert.deepEqual(uses, [["in_flight_limit"], ["header_rules", "timeout"], ["header_rules"]]);
    for (const { used } of plugins.held.values()) {
      for (const use of used?.uses ?? []) {
        assert.equal(
          await whyNotUsable(use, { pluginCode: {}, load: loadBuiltIn, clock: systemClock }),
          undefined,
        );
      }
    }
  });
}

for (const { name, text } of examplesOf("defaults")) {
  test(`an agent gives the access log of ${name} to a proxy, and all of it is used`, async () => {
    const agent = await startDevAgent({ clock: systemClock, random: systemRandom });
    using _agent = { [Symbol.dispose]: () => agent.stop() };
    const put = async (path: string, body: string) => {
      const reply = await fetch(`${agent.address}${path}`, { method: "PUT", body });
      assert.equal(reply.status, 200, await reply.text());
    };
    await put("/v1/config", text);
    const service = { Name: "web", Port: 8080, Connect: { SidecarService: {} } };
    await put("/v1/agent/service/register", JSON.stringify(service));
    const reply = await fetch(`${agent.address}/v1/agent/service/web-sidecar-proxy`);
    const { accessLogs } = readRegistration(await reply.json(), "web-sidecar-proxy");
    const refused: Refusal[] = [];
    const part = accessLogPart(accessLogs, { previous: undefined, version: 1, refused });
    assert.deepEqual(refused, []);
    const { AccessLogs: { Type, TextFormat } } = JSON.parse(text);
    assert.equal(part?.to.kind, Type ?? "stdout");
    assert.equal(part?.format.kind, TextFormat === undefined ? "default" : "text");
  });
}

test("the page names every operator of access logs, and no other", () => {
  const [, after = ""] = page("docs/access-log.md").split("<!-- operators -->");
  const [list = ""] = after.split("\nA format");
  const named = [...list.matchAll(/`([A-Z][A-Z0-9_]+)(?:\([^`]*\))?`/g)].map(([, name = ""]) =>
    name
  )
    .filter((name) => !/^[DU]S_/.test(name));
  assert.deepEqual([...new Set(named)].sort(), KNOWN_OPERATORS);
});

test("every plugin inside the executable has a page with an example that uses it", () => {
  for (const name of BUILT_IN_NAMES) {
    const own = EXAMPLES.filter((example) => example.name.startsWith(`plugins/${name}/README.md`));
    assert.ok(own.some(({ text }) => text.includes(`"use": "${name}"`)), name);
  }
});

for (const { name, text } of examplesOf("plugins")) {
  test(`plugins are made as ${name} says`, async () => {
    for (const { use, config, onFailure } of JSON.parse(text).plugins) {
      await using _plugin = await mount(await loadBuiltIn(use), { config, onFailure });
    }
  });
}

test("every command line of the pages is one that this program takes", () => {
  const lines = [...PAGES.values()].flatMap((text) =>
    [...text.matchAll(/^```sh\n(.*?)^```/gms)].flatMap(([, block = ""]) => block.split("\n"))
  );
  const commands = lines.flatMap((line) => {
    const [, words] = /^(?:exec )?postern (.*?)(?: +#.*| && .*)?$/.exec(line) ?? [];
    return words === undefined ? [] : [words];
  });
  assert.ok(commands.length >= 6, `only ${commands.join("; ")}`);
  for (const words of commands) {
    const argv = words.split(" ").map((word) => word.replace(/^'(.*)'$/, "$1"));
    assert.doesNotThrow(() => parseCommand(argv, {}), words);
  }
});

test("the page shows the help of every command", () => {
  for (const topic of HELP_TOPICS) {
    if (topic === "version") continue;
    const shown = `\n\`\`\`text\n${helpText(topic)}\`\`\`\n`;
    assert.ok(page("docs/command-line.md").includes(shown), `run "deno task docs": ${topic}`);
  }
});

test("the page of keys lists how Postern treats each key of Consul", () => {
  const shown = page("docs/configuration-keys.md").replaceAll(/ +/g, " ");
  const missing = CONFIG_KEYS.filter(({ key, fate }) => {
    const why = fate.kind === "followed" ? fate.note ?? "" : fate.reason;
    return !shown.includes(`| \`${key}\` | `) ||
      !shown.includes(`| ${why} |`.replace("|  |", "| |"));
  });
  assert.deepEqual(missing, [], 'run "deno task docs"');
});

test("every path of the admin server has its line", () => {
  for (const [path, , method] of PATHS) {
    const shown = `\n| \`${method ? `${method} ` : ""}${path}\` `;
    assert.ok(page("docs/admin.md").includes(shown), path);
  }
});

test("links lead to pages and headings that are there", () => {
  const broken: string[] = [];
  for (const [path, text] of PAGES) {
    for (const [, to = ""] of text.matchAll(/\]\(((?!https?:)[^)\s]+)\)/g)) {
      const [file = "", heading] = to.split("#");
      const target = file === "" ? path : posix.join(posix.dirname(path), file);
      const isThere = heading === undefined
        ? existsSync(join(ROOT, target))
        : headingsOf(PAGES.get(target) ?? "").includes(heading);
      if (!isThere) broken.push(`${path}: ${to}`);
    }
  }
  assert.deepEqual(broken, []);
});

test("every path that the pages for contributors name exists", () => {
  const missing: string[] = [];
  for (const path of ["CONTRIBUTING.md", "docs/architecture.md"]) {
    for (const [, name = ""] of page(path).matchAll(/`((?:[\w.-]+\/)+[\w.-]+)`/g)) {
      const [top = ""] = name.split("/");
      const roots = [ROOT, join(ROOT, "src")].filter((root) => existsSync(join(root, top)));
      // "NAME" is a placeholder; a module such as "postern/kit" is no path.
      if (name.includes("NAME") || roots.length === 0) continue;
      if (!roots.some((root) => existsSync(join(root, name)))) missing.push(`${path}: ${name}`);
    }
  }
  assert.deepEqual(missing, []);
});

/** Anchors as GitHub makes them. */
function headingsOf(text: string): readonly string[] {
  return [...text.replace(/^```.*?^```/gms, "").matchAll(/^#+ (.*)$/gm)].map(([, words = ""]) =>
    words.toLowerCase().replace(/[^\w -]/g, "").replaceAll(" ", "-")
  );
}

test("the reference's limits on demand are the defaults", () => {
  const { maxEntries, maxPending, perSourceRate, negativeTtlMs, waitMs } = DEFAULT_ON_DEMAND_RULES;
  const wanted = {
    maxEntries: `${maxEntries}`,
    maxPending: `${maxPending}`,
    perSourceRate: `${perSourceRate}`,
    negativeTtl: `${negativeTtlMs / 1_000}s`,
    wait: `${waitMs / 1_000}s`,
  };
  const found = Object.keys(wanted).map((name) => [
    name,
    page("docs/credentials-reference.md").match(new RegExp(`^\\| \`${name}\` +\\| (\\S+) `, "m"))
      ?.[1],
  ]);
  assert.deepEqual(Object.fromEntries(found), wanted);
});

test("every metric on the pages is one that the source counts", async () => {
  const text = [...PAGES.values()].join("\n");
  const named = [...new Set(text.match(/(?<=`postern_)\w+(?=[`{])/g))]
    .filter((name) => !CONFIG_KEYS.some(({ key }) => key === `postern_${name}`));
  assert.ok(named.length >= 14, `only ${named.join(", ")}`);
  const sources = [];
  const directories = ["consul", "plugin", "secrets", "source", "proxy", "admin", "app"];
  for (const directory of directories.map((name) => `src/${name}`)) {
    for (const path of await readdir(join(ROOT, directory), { recursive: true })) {
      if (!path.endsWith(".ts") || path.endsWith("_test.ts")) continue;
      sources.push(await readFile(join(ROOT, directory, path), "utf8"));
    }
  }
  for (const plugin of BUILT_IN_NAMES) sources.push(await metricsOf(plugin));
  const source = sources.join("\n");
  // Prometheus gets durations in seconds.
  const isCounted = (name: string) =>
    // A name of the traffic table is put together.
    [
      name,
      name.replace(/_seconds$/, "_ms"),
      name.replace(/_(?:duration_seconds|errors_total)$/, ""),
    ]
      .some((own) => source.includes(`"${own}"`));
  assert.deepEqual(named.filter((name) => !isCounted(name)), []);
});

/** The metrics of a plugin inside the executable: their whole names, each in quotes. */
async function metricsOf(plugin: string): Promise<string> {
  const directory = join(ROOT, "plugins", plugin);
  const files = (await readdir(directory)).filter((name) => /(?<!_test)\.ts$/.test(name));
  const texts = await Promise.all(files.map((name) => readFile(join(directory, name), "utf8")));
  const made = texts.join("\n").matchAll(/\b(counter|gauge)\(\s*"(\w+)"/g);
  return [...made]
    .map(([, kind, name]) => `"plugin_${plugin}_${name}${kind === "counter" ? "_total" : ""}"`)
    .join("\n");
}
