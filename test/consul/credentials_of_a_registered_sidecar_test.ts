import { CONSUL } from "../kit/mesh/consul.ts";
import { sidecarCredentials } from "../stories/sidecar_credentials.ts";

sidecarCredentials(CONSUL);
