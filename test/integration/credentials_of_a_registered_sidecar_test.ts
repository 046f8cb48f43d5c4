/** A sidecar registered with `postern_tls`, on the agent in memory. */
import { test } from "node:test";
import { DevMesh } from "../kit/dev_mesh.ts";
import {
  badAtStartStory,
  fileCertificateStory,
  mixedSourcesStory,
  outsideTheMeshStory,
} from "../kit/sidecar_credentials_stories.ts";

for (
  const [name, story] of [
    ["a certificate from files is rotated, spoiled and removed unnoticed", fileCertificateStory],
    ["credentials that make no sense at the start keep the listener closed", badAtStartStory],
    ["a file for the certificate, SDS for the bundle, Consul for the rest", mixedSourcesStory],
    ["an upstream to a server outside the mesh goes by rules of its own", outsideTheMeshStory],
  ] as const
) {
  test(name, { timeout: 180_000 }, async () => {
    await using mesh = await DevMesh.start();
    await story(mesh);
  });
}
