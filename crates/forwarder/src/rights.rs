//! What a peer may do, by what the socket says of it.

use forebay_transport::Peer;

use crate::settings::TcpControl;

/// What the socket says about a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Its user, as the kernel says; over the network nobody vouches for one.
    pub(crate) user: Option<u32>,
    /// Whether files may be opened by path: over the network beneath the export, on this host by the same user.
    pub(crate) may_open_paths: bool,
    /// Whether it may change settings: root and the forwarder's own user.
    pub(crate) may_control: bool,
}

impl Rights {
    /// The rights of a peer.
    pub(crate) fn of(peer: Peer, tcp_control: TcpControl) -> Self {
        match peer {
            Peer::Remote(_) => Self {
                user: None,
                may_open_paths: true,
                may_control: tcp_control == TcpControl::Allow,
            },
            Peer::Local { uid, .. } => {
                let is_same = uid == rustix::process::geteuid().as_raw();
                let may_control = is_same || uid == 0;
                Self { user: Some(uid), may_open_paths: is_same, may_control }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_same_user_may_control_and_others_on_tcp_if_allowed() {
        let own = rustix::process::geteuid().as_raw();
        let local = |uid| Rights::of(Peer::Local { uid, pid: 1 }, TcpControl::Allow);
        assert!(local(own).may_control && local(0).may_control);
        let stranger = local(own + 1);
        assert!(!stranger.may_control && !stranger.may_open_paths);
        assert_eq!(stranger.user, Some(own + 1));
        let remote = |control| Rights::of(Peer::Remote([127, 0, 0, 1].into()), control);
        assert!(!remote(TcpControl::Refuse).may_control);
        assert!(remote(TcpControl::Allow).may_control);
        assert_eq!(remote(TcpControl::Allow).user, None);
    }
}
