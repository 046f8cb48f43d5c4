import { CONSUL } from "../kit/mesh/consul.ts";
import { authorizeBoth } from "../stories/authorize_both.ts";

authorizeBoth(CONSUL);
