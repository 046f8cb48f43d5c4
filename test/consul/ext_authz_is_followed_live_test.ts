import { CONSUL } from "../kit/consul.ts";
import { extAuthz } from "../stories/ext_authz.ts";

extAuthz(CONSUL);
