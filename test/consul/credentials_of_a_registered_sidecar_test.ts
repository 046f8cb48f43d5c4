/** A sidecar registered with `postern_tls` on a real Consul. */
import { test } from "node:test";
import { startConsul } from "../kit/consul.ts";
import {
  badAtStartStory,
  fileCertificateStory,
  mixedSourcesStory,
  outsideTheMeshStory,
  stateDirectoryStory,
} from "../kit/sidecar_credentials_stories.ts";

for (
  const [name, story] of [
    ["a certificate from files is rotated, spoiled and removed unnoticed", fileCertificateStory],
    ["credentials that make no sense at the start keep the listener closed", badAtStartStory],
    ["a file for the certificate, SDS for the bundle, Consul for the rest", mixedSourcesStory],
    ["an upstream to a server outside the mesh goes by rules of its own", outsideTheMeshStory],
  ] as const
) {
  test(name, { timeout: 240_000 }, async () => {
    await using server = await startConsul();
    await story(server);
  });
}

test(
  "a restart with the agent away keeps a sidecar's own credentials, as does the agent's return",
  { timeout: 240_000 },
  async () => {
    await using server = await startConsul();
    await stateDirectoryStory(server, {
      stop: () => server.stop("SIGKILL"),
      start: () => server.start(),
    });
  },
);
