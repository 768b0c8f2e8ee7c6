//! What the variants of an enum are called, in one list: the compiler refuses one in which a variant is missing, so that
//! a new one is printed and described alike.

/// Gives an enum `NAMES`, in the order of the list, and `as_str`; with `&` before its name where it is not copied.
macro_rules! named {
    (@write ($($receiver:tt)+) $this:ident $(#[$doc:meta])* $type:ident { $($variant:pat => $name:literal,)+ }) => {
        impl $type {
            /// What each is called.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            $(#[$doc])*
            #[must_use]
            pub const fn as_str($($receiver)+) -> &'static str {
                match $this {
                    $($variant => $name,)+
                }
            }
        }
    };
    ($(#[$doc:meta])* & $type:ident { $($list:tt)+ }) => {
        named! { @write (&self) self $(#[$doc])* $type { $($list)+ } }
    };
    ($(#[$doc:meta])* $type:ident { $($list:tt)+ }) => {
        named! { @write (self) self $(#[$doc])* $type { $($list)+ } }
    };
}

pub(crate) use named;
